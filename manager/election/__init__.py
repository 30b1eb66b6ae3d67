"""Leader election: one of the replicas that name the same Lease works, the others are ready to take over."""
