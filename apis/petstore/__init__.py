"""Kinds of the group petstore.example.com."""
