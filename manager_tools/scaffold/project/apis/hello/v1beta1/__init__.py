"""Version v1beta1 of hello.example.com."""
