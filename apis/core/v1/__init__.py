"""Kinds of the core group, version v1, as far as controllers read them."""
