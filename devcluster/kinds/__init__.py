"""Kinds: their names, schemas and rules, and the registry of all of them."""
