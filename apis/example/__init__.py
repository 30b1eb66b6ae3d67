"""Kinds of the group example.com."""
