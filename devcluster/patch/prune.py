"""Removal of fields that an applied configuration no longer names."""

from __future__ import annotations

from typing import Any

from devcluster.patch.compare import all_fields
from devcluster.patch.fields import EMPTY, Fields, difference, intersection, union
from devcluster.patch.managed_fields import Entries, Managed
from devcluster.patch.merge import named_too, without
from devcluster.patch.shape import Shape, root_shape
from devcluster.patch.write import Write
from devcluster.schema.node import Schema

__all__ = ["pruned"]

Object = dict[str, Any]

_FAILED = "failed to prune fields: failed "
_UNPRUNED = "failed to convert pruned object to last applied version: "


def pruned(merged: Object, entries: Entries, last: Managed, write: Write) -> Object:
    """Remove the fields that the applier named last time and that have no owner now.

    Raises:
        NotConverted: a version in which a manager owns fields does not declare all fields.
    """
    at = write.at(
        merged, last.api_version, failed=f"{_FAILED}to convert merged object to last applied version: "
    )
    if at is None:
        return merged
    there, schema = at
    shape = root_shape(schema)
    owned: dict[str, Fields] = {}
    for entry in entries.values():
        owned[entry.api_version] = union(owned.get(entry.api_version, EMPTY), entry.fields)
    if len(owned) == 1 and not difference(last.fields, owned.get(last.api_version, EMPTY)):
        return merged
    full = there
    rest = without(there, named_too(last.fields, shape), shape) or {}
    first = {last.api_version: owned.pop(last.api_version)} if last.api_version in owned else {}
    current = last.api_version
    for version, fields in {**first, **owned}.items():
        there_full, there_pruned = (
            _moved(
                obj,
                current,
                version,
                write,
                f"{_FAILED}add back owned items: failed to convert {name} object at version {version}: ",
            )
            for name, obj in (("merged", full), ("pruned", rest))
        )
        if there_full is None or there_pruned is None:
            continue
        (full, schema), (rest, _) = there_full, there_pruned
        current = version
        rest = _with_owned(full, rest, fields, root_shape(schema))
    back = _moved(rest, current, last.api_version, write, f"{_FAILED}add back dangling items: {_UNPRUNED}")
    if back is None:
        return merged
    gone = difference(
        named_too(all_fields(there, shape), shape), named_too(all_fields(back[0], shape), shape)
    )
    removed = intersection(gone, named_too(last.fields, shape))
    result = without(there, removed, shape) or {}
    home = _moved(result, last.api_version, write.api_version, write, "failed to prune fields: ")
    return home[0] if home is not None else merged


def _moved(
    obj: Object, current: str, version: str, write: Write, failed: str
) -> tuple[Object, Schema] | None:
    """Convert an object from one version to another, possibly the same."""
    if version == current == write.api_version:
        return obj, write.schema
    return write.moved(obj, version, failed=failed)


def _with_owned(full: Object, pruned: Object, owned: Fields, shape: Shape) -> Object:
    """Return the pruned object with its owned fields restored."""
    there = named_too(all_fields(full, shape), shape)
    left = named_too(all_fields(pruned, shape), shape)
    kept: Object = without(full, difference(there, union(left, named_too(owned, shape))), shape) or {}
    return kept
