"""Schemas, and the validation of custom objects against them."""
