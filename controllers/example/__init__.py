"""Operators for the kinds of example.com."""
