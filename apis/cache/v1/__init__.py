"""Kinds of cache.example.com/v1."""
