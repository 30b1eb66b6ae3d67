"""What the operators of cache.example.com do."""
