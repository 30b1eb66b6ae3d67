"""Kinds with names, schemas and strategies, and the registry of all kinds."""
