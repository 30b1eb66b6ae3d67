"""Whole objects within custom objects (`x-kubernetes-embedded-resource`)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from devcluster import names
from devcluster.errors import FieldError, field_invalid, field_required
from devcluster.schema.node import Schema
from devcluster.types.codec import DecodeError
from devcluster.types.decode import convert

__all__ = ["check_embedded", "coerce_embedded"]

_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def check_embedded(obj: Any, schema: Schema, path: str = "") -> list[FieldError]:
    """Check the objects within `obj`, which is at `path`."""
    if not (schema.embedded or _has_embedded(schema)):
        return []
    return [error for value, at in _embedded(obj, schema, path) for error in _object(value, at)]


def coerce_embedded(obj: Any, schema: Schema) -> list[str]:
    """Read the metadata of the objects within `obj` as any object's, in place.

    Returns:
        The paths of fields that metadata does not have.

    Raises:
        ValueError: it cannot be read; the text says what.
    """
    unknown: list[str] = []
    if _has_embedded(schema):
        for value, path in _embedded(obj, schema, ""):
            unknown += _coerce(value, path)
    return unknown


@functools.lru_cache(maxsize=1024)
def _has_embedded(schema: Schema) -> bool:
    below = [*schema.properties.values(), schema.items, schema.additional]
    return any(each is not None and (each.embedded or _has_embedded(each)) for each in below)


def _embedded(value: Any, schema: Schema | None, path: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the embedded objects in a value, each with its path."""
    if schema is None:
        return
    if type(value) is dict:
        if schema.embedded:
            yield value, path
        for name, each in value.items():
            if name in schema.properties:
                yield from _embedded(each, schema.properties[name], f"{path}.{name}" if path else name)
            elif schema.additional is not None:
                yield from _embedded(each, schema.additional, f"{path}[{name}]")
    elif type(value) is list:
        for index, each in enumerate(value):
            yield from _embedded(each, schema.items, f"{path}[{index}]")


def _coerce(value: dict[str, Any], path: str) -> list[str]:
    for name in ("apiVersion", "kind"):
        if not isinstance(value.get(name, ""), str):
            raise ValueError(str(field_invalid(f"{path}.{name}", value[name], "must be a string")))  # noqa: TRY004
    metadata = value.get("metadata")
    if metadata is None:
        return []
    try:
        value["metadata"], problems = convert(metadata, _OBJECT_META)
    except DecodeError as error:
        shown = dict(sorted(metadata.items())) if isinstance(metadata, dict) else metadata
        raise ValueError(str(field_invalid(f"{path}.metadata", shown, str(error)))) from error
    return [f"{path}.metadata.{problem.split(chr(34))[1]}" for problem in problems]


def _object(value: dict[str, Any], path: str) -> Iterator[FieldError]:
    for name in ("apiVersion", "kind"):
        field = f"{path}.{name}"
        given = value.get(name)
        if name not in value:
            yield field_required(field)
        elif not given:
            yield field_invalid(field, given, "must not be empty")
        elif name == "apiVersion" and given.count("/") > 1:
            yield field_invalid(field, given, f"unexpected GroupVersion string: {given}")
        elif name == "kind" and (wrong := names.dns_label_1035(given.lower())):
            text = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            yield field_invalid(field, given, text)
    metadata = value.get("metadata")
    given = metadata.get("name") if isinstance(metadata, dict) else None
    for wrong_text in names.path_segment(given) if given else ():
        yield field_invalid(f"{path}.metadata.name", given, wrong_text)
