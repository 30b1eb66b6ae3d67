"""Service, as far as controllers and programs use it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from apis.meta import Resource

__all__ = ["Service"]


class Service(Resource, group="", version="v1", plural="services"):
    """One address for a number of pods."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: dict[str, Any] = Field(default_factory=dict)
