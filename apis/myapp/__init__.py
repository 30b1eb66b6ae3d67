"""Kinds of the group myapp.idcos.com."""
