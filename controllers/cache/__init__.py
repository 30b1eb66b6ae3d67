"""Operators for the kinds of cache.example.com."""
