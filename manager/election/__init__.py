"""Leader election: of the replicas that use a Lease, one works, and the others are ready to take over."""
