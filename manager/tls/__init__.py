"""Certificates that our servers present: read from files or made here, and kept current while they run."""
