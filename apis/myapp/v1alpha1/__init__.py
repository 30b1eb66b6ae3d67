"""Kinds of myapp.idcos.com/v1alpha1."""
