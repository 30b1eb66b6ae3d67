"""Pruning and defaulting of stored custom objects whose schema or version has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devcluster.schema.defaulting import default, drop_nulls, prune
from devcluster.schema.node import Schema

Object = dict[str, Any]


class CustomVersions:
    """All versions of a custom kind in its current CustomResourceDefinition."""

    def __init__(self, schemas: Mapping[str, Schema], *, stale_until: int) -> None:
        """Set up the versions of a CustomResourceDefinition.

        Args:
            schemas: The schemas by `apiVersion`.
            stale_until: The last store version at which objects may have been written with other schemas.
        """
        self._schemas = schemas
        self._like = {
            name: next(other for other, schema in schemas.items() if schema.source == own.source)
            for name, own in schemas.items()
        }
        self._stale_until = stale_until

    def has(self, api_version: str) -> bool:
        """Return whether the definition has this version, even if the version is not served."""
        return api_version in self._schemas

    def are_alike(self, one: str, other: str) -> bool:
        """Return whether the schemas of two versions are equal."""
        return self._like.get(one) == self._like.get(other)

    def is_stale(self, version: int) -> bool:
        """Return whether an object last written at this store version must be pruned and defaulted again."""
        return version <= self._stale_until

    def tidy(self, obj: Object) -> None:
        """Prune and default `obj` in place, by the schema of its version."""
        if (schema := self._schemas.get(obj.get("apiVersion", ""))) is not None:
            prune(obj, schema)
            default(obj, schema)

    def prune(self, obj: Object) -> None:
        """Prune `obj` in place, by the schema of its version."""
        if (schema := self._schemas.get(obj.get("apiVersion", ""))) is not None:
            prune(obj, schema)
            drop_nulls(obj, schema, root=True)
