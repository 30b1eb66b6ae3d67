"""Kinds of the core group, as far as controllers read them."""
