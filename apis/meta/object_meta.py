"""The metadata that every object has."""

from __future__ import annotations

import operator
from datetime import datetime

from pydantic import Field

from apis.meta.model import ApiModel
from apis.meta.owner_reference import OwnerReference

__all__ = ["ObjectMeta"]


class ObjectMeta(ApiModel):
    """An object's metadata, as far as controllers use it; the rest (`managedFields`) is kept as it came.

    Code may rely on strings and collections being there: what the server left out is empty here, and what is
    empty here is left out on the wire, because in metadata the two mean the same.
    """

    name: str = Field(default="", exclude_if=operator.not_)
    namespace: str = Field(default="", exclude_if=operator.not_)
    generate_name: str = Field(default="", exclude_if=operator.not_)
    uid: str = Field(default="", exclude_if=operator.not_)
    resource_version: str = Field(default="", exclude_if=operator.not_)
    generation: int = Field(default=0, exclude_if=operator.not_)
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = Field(default_factory=dict, exclude_if=operator.not_)
    annotations: dict[str, str] = Field(default_factory=dict, exclude_if=operator.not_)
    finalizers: list[str] = Field(default_factory=list, exclude_if=operator.not_)
    owner_references: list[OwnerReference] = Field(default_factory=list, exclude_if=operator.not_)
