"""The kinds of hello.example.com."""
