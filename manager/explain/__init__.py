"""Why an object is not ready: what the API server knows of it and of what it owns, in words."""
