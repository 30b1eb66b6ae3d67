"""The operators of hello.example.com."""
