"""Kinds of tutorial.my.domain/v1."""
