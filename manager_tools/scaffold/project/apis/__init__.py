"""The kinds of this project."""
