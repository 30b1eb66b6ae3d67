"""Namespace, as far as programs use it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from apis.meta import Resource

__all__ = ["Namespace"]


class Namespace(Resource, group="", version="v1", plural="namespaces", namespaced=False):
    """A scope for names; what is in it goes with it."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: dict[str, Any] = Field(default_factory=dict)
