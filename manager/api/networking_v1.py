"""Kinds of networking.k8s.io/v1: as far as operators and their clients use them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from manager.api import Resource

__all__ = ["Ingress"]


class Ingress(Resource, group="networking.k8s.io", version="v1", plural="ingresses"):
    """Leads HTTP requests from outside of the cluster to Services."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: dict[str, Any] = Field(default_factory=dict)
