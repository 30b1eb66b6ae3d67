"""A client program: a Deployment in a namespace of its own, reachable and watched until Ctrl-C."""
