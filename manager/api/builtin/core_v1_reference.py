# Made by scripts/generate-api-models; do not edit.
"""Types of core/v1: ObjectReference, LocalObjectReference, SecretReference, TypedLocalObjectReference."""

from __future__ import annotations

from typing import Annotated

from manager.api.builtin.part import Part
from manager.api.schema import atomic_map, server_default

__all__ = ["LocalObjectReference", "ObjectReference", "SecretReference", "TypedLocalObjectReference"]


class ObjectReference(Part, json_schema_extra=atomic_map()):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    api_version: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class LocalObjectReference(Part, json_schema_extra=atomic_map()):
    name: Annotated[str | None, server_default("")] = None


class SecretReference(Part, json_schema_extra=atomic_map()):
    name: str | None = None
    namespace: str | None = None


class TypedLocalObjectReference(Part, json_schema_extra=atomic_map()):
    api_group: str | None = None
    kind: str
    name: str
