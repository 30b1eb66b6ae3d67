"""Operators for the kinds of tutorial.my.domain."""
