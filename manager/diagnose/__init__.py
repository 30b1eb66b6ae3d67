"""Diagnosis of an object: its state, its readiness, and why it is not ready."""
