"""Sets of an object's fields, and of the fields that differ between two objects; used for field ownership."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from devcluster.equality import equal
from devcluster.patch.fields import LEAF, MEMBER, Fields
from devcluster.patch.shape import Shape, root_shape
from devcluster.schema.node import Schema

Object = dict[str, Any]

_UNOWNED: Final = frozenset({"apiVersion", "kind", "metadata"})
_UNOWNED_META: Final = frozenset(
    {
        "clusterName",
        "creationTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
"""Metadata that no manager owns: the identity, and fields that only the server sets."""


class Comparison(NamedTuple):
    """Fields that a write has changed or added, and fields that it has removed."""

    changed: Fields
    removed: Fields


def compare(old: Object | None, new: Object, schema: Schema) -> Comparison:
    """Return the fields that differ between two versions of an object; `old` is None for a new object.

    Raises:
        Untypable: a list item has no key.
    """
    shape = root_shape(schema)
    if old is None:
        old = shape.nothing
        if old:
            new = _without_nulls(new, old)
    changed: Fields = {}
    removed: Fields = {}
    _compare_fields(old, new, shape, changed, removed, _UNOWNED)
    meta_changed: Fields = {}
    meta_removed: Fields = {}
    _compare_fields(
        old.get("metadata") or {},
        new.get("metadata") or {},
        shape.fields["metadata"],
        meta_changed,
        meta_removed,
        _UNOWNED_META,
    )
    if meta_changed:
        changed["f:metadata"] = meta_changed
    if meta_removed:
        removed["f:metadata"] = meta_removed
    return Comparison(changed, removed)


def applied_fields(config: Object, schema: Schema) -> Fields:
    """Return the fields that a configuration contains; raise Untypable for a list item without key."""
    shape = root_shape(schema)
    fields = _named({key: value for key, value in config.items() if key not in _UNOWNED}, shape)
    metadata = config.get("metadata")
    if isinstance(metadata, dict):
        named = {key: value for key, value in metadata.items() if key not in _UNOWNED_META}
        if named and (below := _named(named, shape.fields["metadata"])):
            fields["f:metadata"] = below
    return fields


def all_fields(obj: Object, shape: Shape) -> Fields:
    """Return all fields of an object, in the form of `applied_fields`."""
    return _named(obj, shape)


def _whole(value: Any, shape: Shape) -> Fields:
    """Return the tree of all fields in a value that only the old or only the new object has."""
    if isinstance(value, dict):
        if not value or not shape.is_map or shape.atomic_map:
            return LEAF
        node: Fields = {MEMBER: LEAF}
        fields, element = shape.fields, shape.element
        for name, below in value.items():
            if isinstance(below, dict | list):
                node["f:" + name] = _whole(below, fields.get(name) or element or shape.child(name))
            else:
                node["f:" + name] = LEAF
        return node
    if isinstance(value, list):
        if not value or not shape.is_list or shape.atomic_list:
            return LEAF
        node = {MEMBER: LEAF}
        for below in value:
            key = shape.key_of(below)
            node[key] = LEAF if key in node else _whole(below, shape.item)  # a duplicate is owned as a whole
        return node
    return LEAF


def _compare_fields(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    shape: Shape,
    changed: Fields,
    removed: Fields,
    skipped: frozenset[str] = frozenset(),
) -> None:
    fields = shape.fields
    for name, value in new.items():
        if name in skipped:
            continue
        if name not in old:
            if isinstance(value, dict | list):
                changed["f:" + name] = _whole(value, fields.get(name) or shape.child(name))
            else:
                changed["f:" + name] = LEAF
            continue
        before = old[name]
        if equal(before, value):
            continue
        _place("f:" + name, *_pair(before, value, fields.get(name) or shape.child(name)), changed, removed)
    for name, value in old.items():
        if name not in new and name not in skipped:
            removed["f:" + name] = _whole(value, shape.child(name))


def _place(key: str, change: Fields | None, loss: Fields | None, changed: Fields, removed: Fields) -> None:
    if change is not None:
        changed[key] = change
    if loss is not None:
        removed[key] = loss


def _pair(old: Any, new: Any, shape: Shape) -> tuple[Fields | None, Fields | None]:
    """Return the trees of changed and removed fields for two different values; None for no fields."""
    if (old is None or isinstance(old, dict)) and (new is None or isinstance(new, dict)):
        if not shape.is_map or shape.atomic_map or not (old or new):
            return LEAF, None
        changed: Fields = {}
        removed: Fields = {}
        _compare_fields(old or {}, new or {}, shape, changed, removed)
        return changed or None, removed or None
    if (old is None or isinstance(old, list)) and (new is None or isinstance(new, list)):
        if not shape.is_list or shape.atomic_list or not (old or new):
            return LEAF, None
        return _pair_lists(old or [], new or [], shape)
    # The type has changed, so the field has changed with everything below it.
    change = _whole(new, shape) if isinstance(new, dict | list) else LEAF
    loss = _whole(old, shape) if isinstance(old, dict | list) else LEAF
    return change, {key: node for key, node in loss.items() if key != MEMBER} or None


def _pair_lists(old: list[Any], new: list[Any], shape: Shape) -> tuple[Fields | None, Fields | None]:
    before, after = _by_key(old, shape), _by_key(new, shape)
    item = shape.item
    changed: Fields = {}
    removed: Fields = {}
    for key, values in after.items():
        earlier = before.get(key)
        if earlier is None:
            changed[key] = _whole(values[0], item) if len(values) == 1 else LEAF
        elif len(values) == 1 and len(earlier) == 1:
            if not equal(earlier[0], values[0]):
                _place(key, *_pair(earlier[0], values[0], item), changed, removed)
        elif len(values) == 1:  # the item is no longer a duplicate
            changed[key] = _whole(values[0], item)
            removed[key] = LEAF
        elif len(earlier) == 1:  # the item has become a duplicate
            changed[key] = LEAF
            removed[key] = _whole(earlier[0], item)
        elif not equal(values, earlier):
            changed[key] = LEAF
    for key, values in before.items():
        if key not in after:
            removed[key] = _whole(values[0], item) if len(values) == 1 else LEAF
    return changed or None, removed or None


def _by_key(items: list[Any], shape: Shape) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(shape.key_of(item), []).append(item)
    return found


def _named(value: Any, shape: Shape) -> Fields:
    """Return the tree of all fields below a map or list in an applied configuration."""
    node: Fields = {}
    if isinstance(value, dict):
        fields = shape.fields
        for name, below in value.items():
            known = fields.get(name)
            member = _named_node(below, known or shape.child(name), listed=known is None)
            if member is not None:
                node["f:" + name] = member
    else:
        for below in value:
            key = shape.key_of(below)
            node[key] = LEAF if key in node else _named_node(below, shape.item, listed=True)
    return node


def _named_node(value: Any, shape: Shape, *, listed: bool) -> Fields | None:
    """Return the tree of a value in an applied configuration, or None if it has no members.

    `listed` means a list item, or a map entry whose key the schema does not define; such a value is a member.
    """
    if isinstance(value, dict):
        if not value or not shape.is_map or shape.atomic_map:
            return LEAF
    elif not isinstance(value, list) or not shape.is_list or shape.atomic_list:
        return LEAF
    members = _named(value, shape)
    if listed:
        return {MEMBER: LEAF, **members} if members else LEAF
    return members or None


def _without_nulls(new: Object, empty: Object) -> Object:
    """Return the new object without the nulls that Go writes for fields that are not set."""
    kept: Object = {}
    for name, value in new.items():
        if value is None:
            continue
        below = empty.get(name)
        if isinstance(value, dict) and isinstance(below, dict):
            kept[name] = _without_nulls(value, below)
        else:
            kept[name] = value
    return kept
