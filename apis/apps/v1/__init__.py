"""Kinds of apps/v1, as far as controllers read them."""
