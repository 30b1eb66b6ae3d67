"""Kinds of networking.k8s.io/v1, as far as programs use them."""
