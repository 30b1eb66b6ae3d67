"""Version v1 of hello.example.com."""
