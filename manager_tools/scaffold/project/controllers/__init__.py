"""The operators of this project."""
