"""Kinds of the group apps, as far as controllers read them."""
