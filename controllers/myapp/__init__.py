"""Operators for the kinds of myapp.idcos.com."""
