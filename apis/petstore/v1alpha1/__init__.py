"""Kinds of petstore.example.com/v1alpha1."""
