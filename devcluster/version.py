"""The Kubernetes version whose behaviour devcluster copies; `make record` writes it."""

KUBERNETES = "v1.36.3"
