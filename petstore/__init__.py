"""A pet store behind gRPC: server, client and command line. It stands alone, and knows nothing of Kubernetes.

Who wants to talk to a store imports `petstore.client`, and for TLS `petstore.tls`, which brings cryptography.
`petstore.errors` and `petstore.pet` bring no gRPC.
"""
