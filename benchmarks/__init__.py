"""What the manager costs on a real API server, next to its peers and to the least that its work can cost."""
