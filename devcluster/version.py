"""The Kubernetes version whose behaviour devcluster copies; `make record` writes it."""

from __future__ import annotations

KUBERNETES = "v1.36.3"
