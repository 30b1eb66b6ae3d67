"""Kinds of petstore.example.com/v1beta1."""
