"""Kinds of example.com/v1."""
