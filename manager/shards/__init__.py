"""Shards: the division of objects among replicas that share the work."""
