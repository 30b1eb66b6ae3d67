"""Schemas: what is known of the shape of objects, and how custom objects are held to it."""
