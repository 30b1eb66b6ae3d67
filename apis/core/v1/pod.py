"""Pod, as far as controllers read it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from apis.meta import Resource

__all__ = ["Pod"]


class Pod(Resource, group="", version="v1", plural="pods"):
    """A group of containers on one node."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: dict[str, Any] = Field(default_factory=dict)
