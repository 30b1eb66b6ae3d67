"""A client program: it creates a Deployment in a new namespace, and prints the pods' logs until Ctrl-C."""
