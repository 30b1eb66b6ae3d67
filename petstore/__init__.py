"""A pet store behind gRPC: server, client and command line. The package does not depend on Kubernetes.

A client imports `petstore.client`, and for TLS `petstore.tls`, which imports cryptography. `petstore.errors`
and `petstore.pet` do not import gRPC.
"""
