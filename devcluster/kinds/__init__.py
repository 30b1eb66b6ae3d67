"""Kinds, with their names, schemas and API server rules, and the registry of all kinds."""
