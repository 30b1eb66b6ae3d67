"""Schemas of objects, and the validation of custom objects by them."""
