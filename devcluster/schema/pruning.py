"""Removal of the fields that a schema does not name."""

from __future__ import annotations

from typing import Any

from devcluster.schema.node import Schema

__all__ = ["prune"]

_METADATA = frozenset({"apiVersion", "kind", "metadata"})
_NOTHING = Schema()


def prune(obj: Any, schema: Schema, *, root: bool = True) -> list[str]:
    """Remove unknown fields from `obj`, in place, and return their paths, sorted (`spec.ports[0].nmae`).

    With `root`, and in embedded resources, `apiVersion`, `kind` and `metadata` are left alone.
    """
    removed: list[str] = []
    _prune(obj, schema, "", removed, root)
    removed.sort()
    return removed


def _prune(value: Any, schema: Schema | None, path: str, removed: list[str], root: bool) -> None:
    if type(value) is dict:
        _prune_fields(value, schema or _NOTHING, path, removed, root)
    elif type(value) is list:
        if schema is not None and schema.preserve_unknown:
            _skip(value, schema, path, removed)
            return
        items = schema.items if schema is not None else None
        for index, each in enumerate(value):
            if type(each) is dict or type(each) is list:
                _prune(each, items, f"{path}[{index}]", removed, False)


def _prune_fields(value: dict[str, Any], schema: Schema, path: str, removed: list[str], root: bool) -> None:
    keep = root or schema.embedded
    properties, additional = schema.properties, schema.additional
    unknown: list[str] = []
    for name, each in value.items():
        if keep and name in _METADATA:
            continue
        child = properties.get(name, additional)
        if child is not None:
            if type(each) is dict or type(each) is list:
                _prune(each, child, f"{path}.{name}" if path else name, removed, False)
        elif not schema.preserve_unknown:
            unknown.append(name)
    for name in unknown:
        del value[name]
        if path or name not in _METADATA:
            removed.append(f"{path}.{name}" if path else name)


def _skip(value: list[Any], schema: Schema, path: str, removed: list[str]) -> None:
    # In a preserved list, only the items' known fields are visited.
    if schema.items is None:
        return
    for index, each in enumerate(value):
        if type(each) is dict:
            for name, field in each.items():
                child = schema.items.properties.get(name, schema.items.additional)
                if child is not None:
                    _prune(field, child, f"{path}[{index}].{name}", removed, False)
        elif type(each) is list:
            _skip(each, schema.items, f"{path}[{index}]", removed)
