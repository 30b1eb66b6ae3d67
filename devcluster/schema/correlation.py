"""Correlation of an object's values with the values of the object before an update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from devcluster.schema.node import Schema


class _Missing:
    pass


MISSING: Final = _Missing()
"""The absence of a correlated value; None is a possible value."""


def same(one: Any, other: Any) -> bool:
    """Return whether values are deeply equal; `1`, `1.0` and `true` are all different."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return len(one) == len(other) and all(
            name in other and same(each, other[name]) for name, each in one.items()
        )
    if type(one) is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def find_item(items: Any, item: Any, keys: Sequence[str]) -> Any:
    """Return the item of a list that has the same values in `keys` as `item`, or MISSING."""
    if type(items) is not list or type(item) is not dict:
        return MISSING
    wanted = [item.get(key, MISSING) for key in keys]
    for each in items:
        if type(each) is dict and all(
            same(each.get(key, MISSING), value) for key, value in zip(keys, wanted, strict=True)
        ):
            return each
    return MISSING


def unchanged(
    schema: Schema, value: Any, old: Any, spine: Sequence[str | int], *, root_meta: bool = True
) -> bool:
    """Return whether the value at the path `spine`, or any value that contains it, is unchanged by an update.

    With `root_meta`, the root is an object, whose `apiVersion` and `kind` count as changed if it has changed.
    """
    node: Schema | None = schema
    if same(value, old):
        return True
    for depth, step in enumerate(spine):
        if node is None or (root_meta and depth == 0 and step in {"apiVersion", "kind"}):
            return False
        value, old, node = _child(node, value, old, step)
        if old is MISSING:
            return False
        if same(value, old):
            return True
    return False


def _child(node: Schema, value: Any, old: Any, step: str | int) -> tuple[Any, Any, Schema | None]:
    if isinstance(step, int):
        item = value[step]
        found = find_item(old, item, node.list_map_keys) if node.list_type == "map" else MISSING
        return item, found, node.items
    properties: Mapping[str, Schema] = node.properties
    before = old.get(step, MISSING) if type(old) is dict else MISSING
    return value[step], before, properties.get(step, node.additional)
