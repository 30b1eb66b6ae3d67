"""What the manager costs, next to the least that the same work can cost, on a real API server."""
