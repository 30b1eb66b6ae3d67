"""Replicas that share the work: which objects are whose."""
