"""Kubernetes version whose behaviour devcluster copies; `make record` writes this file."""

from __future__ import annotations

KUBERNETES = "v1.36.3"
