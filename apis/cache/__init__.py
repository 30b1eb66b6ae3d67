"""Kinds of the group cache.example.com."""
