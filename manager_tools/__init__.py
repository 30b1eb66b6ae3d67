"""Tools for authors of operators: code generation, scaffolding, storage migration, tests, simulation."""
