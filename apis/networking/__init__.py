"""Kinds of the group networking.k8s.io, as far as programs use them."""
