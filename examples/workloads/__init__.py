"""A client program: a Deployment in its own namespace, reachable and watched until Ctrl-C."""
