"""Whole objects within custom objects (`x-kubernetes-embedded-resource`)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from devcluster.errors import FieldError, field_invalid, field_required
from devcluster.kinds import names
from devcluster.schema.node import Schema

__all__ = ["check_embedded"]


def check_embedded(obj: Any, schema: Schema) -> list[FieldError]:
    """What is wrong with the objects within `obj`."""
    return list(_below(obj, schema, "")) if _has_embedded(schema) else []


@functools.lru_cache(maxsize=1024)
def _has_embedded(schema: Schema) -> bool:
    below = [*schema.properties.values(), schema.items, schema.additional]
    return any(each is not None and (each.embedded or _has_embedded(each)) for each in below)


def _below(value: Any, schema: Schema | None, path: str) -> Iterator[FieldError]:
    if schema is None:
        return
    if type(value) is dict:
        if schema.embedded:
            yield from _object(value, path)
        for name, each in value.items():
            if name in schema.properties:
                yield from _below(each, schema.properties[name], f"{path}.{name}" if path else name)
            elif schema.additional is not None:
                yield from _below(each, schema.additional, f"{path}[{name}]")
    elif type(value) is list:
        for index, each in enumerate(value):
            yield from _below(each, schema.items, f"{path}[{index}]")


def _object(value: dict[str, Any], path: str) -> Iterator[FieldError]:
    for name in ("apiVersion", "kind"):
        field = f"{path}.{name}"
        given = value.get(name)
        if name not in value:
            yield field_required(field)
        elif not isinstance(given, str):
            yield field_invalid(field, given, "must be a string")
        elif not given:
            yield field_invalid(field, given, "must not be empty")
        elif name == "apiVersion" and given.count("/") > 1:
            yield field_invalid(field, given, f"unexpected GroupVersion string: {given}")
        elif name == "kind" and (wrong := names.dns_label_1035(given.lower())):
            text = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            yield field_invalid(field, given, text)
    metadata = value.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        text = "json: cannot unmarshal into Go value of type v1.ObjectMeta"
        yield field_invalid(f"{path}.metadata", metadata, text)
    elif metadata:
        given = metadata.get("name")
        for wrong_text in names.path_segment(given) if isinstance(given, str) else ():
            yield field_invalid(f"{path}.metadata.name", given, wrong_text)
