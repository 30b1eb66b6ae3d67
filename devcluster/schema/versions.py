"""Versions of a custom kind: pruning and defaulting of objects written by another version's schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devcluster.schema.defaulting import default, drop_nulls, prune
from devcluster.schema.node import Schema

Object = dict[str, Any]


class CustomVersions:
    """The versions of one kind, as its definition has them at present."""

    def __init__(self, schemas: Mapping[str, Schema], *, stale_until: int) -> None:
        """Set up the versions of a CustomResourceDefinition.

        Args:
            schemas: The schemas by `apiVersion`.
            stale_until: Objects written up to this store version may have other schemas.
        """
        self._schemas = schemas
        self._like = {
            name: next(other for other, schema in schemas.items() if schema.source == own.source)
            for name, own in schemas.items()
        }
        self._stale_until = stale_until

    def has(self, api_version: str) -> bool:
        """Return whether the definition has that version, served or not."""
        return api_version in self._schemas

    def are_alike(self, one: str, other: str) -> bool:
        """Return whether two versions accept the same objects."""
        return self._like.get(one) == self._like.get(other)

    def is_stale(self, version: int) -> bool:
        """Return whether an object last written at that store version needs pruning and defaulting."""
        return version <= self._stale_until

    def tidy(self, obj: Object) -> None:
        """Drop unknown fields by the schema of the object's version, and fill in its defaults, in place."""
        if (schema := self._schemas.get(obj.get("apiVersion", ""))) is not None:
            prune(obj, schema)
            default(obj, schema)

    def prune(self, obj: Object) -> None:
        """Drop unknown fields by the schema of the object's version, in place."""
        if (schema := self._schemas.get(obj.get("apiVersion", ""))) is not None:
            prune(obj, schema)
            drop_nulls(obj, schema, root=True)
