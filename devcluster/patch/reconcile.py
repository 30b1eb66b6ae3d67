"""Field sets brought in line with a schema in which something has become atomic."""

from __future__ import annotations

from devcluster.patch.fields import LEAF, MEMBER, Fields
from devcluster.patch.shape import DEDUCED, Shape

__all__ = ["reconciled"]


def reconciled(fields: Fields, shape: Shape) -> Fields:
    """Replace the owned fields below a list or map that has become atomic by the list or map itself."""
    changed: Fields = {}
    for key, node in fields.items():
        below = _below(key, shape) if node else None
        if below is None:
            continue
        if _whole(below, node):
            changed[key] = LEAF
        else:
            inner = reconciled(node, below)
            if inner is not node:
                changed[key] = inner
    return {**fields, **changed} if changed else fields


def _below(key: str, shape: Shape) -> Shape | None:
    if key == MEMBER:
        return None
    if key[0] == "f":
        if not shape.is_map:
            return None
        below = shape.fields.get(key[2:]) or shape.element
        return None if below is DEDUCED else below
    return shape.item if shape.is_list else None


def _whole(shape: Shape, node: Fields) -> bool:
    """Return whether the members below a node belong to a list or map that is now atomic."""
    listed = next((key for key in node if key != MEMBER), "f:")[0] in "kvi"
    if shape.is_map and not listed:
        return shape.atomic_map
    return shape.is_list and listed and shape.atomic_list
