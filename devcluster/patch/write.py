"""The part of a request that field management needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from devcluster.patch.fields import Fields
from devcluster.patch.shape import NotConverted, Untypable, is_builtin, root_shape
from devcluster.patch.validate import check_declared
from devcluster.schema.node import Schema

__all__ = ["Convert", "Write", "in_versions"]

Object = dict[str, Any]

Convert = Callable[[Object, str], tuple[Object, Schema] | None]
"""An object in another version of its kind (`apiVersion`), with the schema of that version; None for one that
is not served."""


@dataclasses.dataclass(slots=True)
class Write:
    """A write of an object; `reset` are the fields that it cannot change."""

    schema: Schema
    api_version: str
    now: str
    reset: Fields
    convert: Convert | None

    def at(self, obj: Object, api_version: str, *, failed: str = "") -> tuple[Object, Schema] | None:
        """Convert the object from the request's version; None for an unknown version.

        Raises:
            NotConverted: the version lacks a field; the text begins with `failed`.
        """
        if api_version == self.api_version:
            return obj, self.schema
        return self.moved(obj, api_version, failed=failed)

    def moved(self, obj: Object, api_version: str, *, failed: str) -> tuple[Object, Schema] | None:
        """Convert the object from any version, possibly the same; otherwise like `at`."""
        try:
            return self.convert(obj, api_version) if self.convert is not None else None
        except Untypable as error:
            raise NotConverted(f"{failed}{error}") from None


def in_versions(schemas: Mapping[str, Schema]) -> Convert:
    """Return a conversion between versions that differ only in apiVersion and schema.

    The conversion raises Untypable for a field that the other version does not declare.
    """

    def convert(obj: Object, api_version: str) -> tuple[Object, Schema] | None:
        schema = schemas.get(api_version)
        if schema is None:
            return None
        if not is_builtin(schema):
            check_declared(obj, root_shape(schema))
        return {**obj, "apiVersion": api_version}, schema

    return convert
