"""Diagnosis: why an object is not ready (`collect`, `render`), and what a reconcile would do (`plan`)."""
