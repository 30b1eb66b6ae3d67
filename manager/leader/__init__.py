"""Leader election: of several replicas that share a Lease, one works and the others are ready to."""
