"""A client program: it creates a Deployment in a new namespace, and follows its logs until Ctrl-C."""
