"""Kinds of the group tutorial.my.domain."""
