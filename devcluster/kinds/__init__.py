"""Kinds with their names, schemas and rules, and the registry of all kinds."""
