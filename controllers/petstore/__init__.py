"""Keeps Pets equal to records in a pet store."""
