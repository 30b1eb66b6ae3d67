"""Merge of an applied configuration, and removal of the fields that it no longer contains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from devcluster.patch.compare import all_fields
from devcluster.patch.fields import EMPTY, LEAF, MEMBER, Fields, difference, intersection, is_member, union
from devcluster.patch.managed_fields import Entries, Managed
from devcluster.patch.shape import DEDUCED, Shape, root_shape
from devcluster.patch.write import Write
from devcluster.schema.node import Schema

Object = dict[str, Any]

_FAILED = "failed to prune fields: failed "
_UNPRUNED = "failed to convert pruned object to last applied version: "


def pruned(merged: Object, entries: Entries, last: Managed, write: Write) -> Object:
    """Remove the fields of the applier's last configuration that no manager owns any more.

    Raises:
        NotConverted: a field does not exist in a version in which a manager owns fields.
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
    """Convert an object from version `current` to `version`; they may be equal."""
    if version == current == write.api_version:
        return obj, write.schema
    return write.moved(obj, version, failed=failed)


def _with_owned(full: Object, pruned: Object, owned: Fields, shape: Shape) -> Object:
    """Return the pruned object, with those fields of `full` restored that are in `owned`."""
    there = named_too(all_fields(full, shape), shape)
    left = named_too(all_fields(pruned, shape), shape)
    kept: Object = without(full, difference(there, union(left, named_too(owned, shape))), shape) or {}
    return kept


_GONE: Final = object()


def merge(live: Any, config: Any, shape: Shape) -> Any:
    """Merge `config` into `live`, both of this shape; fields that `config` does not contain stay.

    The arguments stay unchanged. In lists with item keys, items in both lists take the order of `config`; the
    other items keep their place.

    Raises:
        Untypable: a list item has no key.
    """
    merged = _merge(live, config, shape)
    return {} if merged is _GONE else merged


def _merge(live: Any, config: Any, shape: Shape) -> Any:
    if isinstance(config, dict) or (config is None and isinstance(live, dict)):
        if not shape.is_map or shape.atomic_map:
            return config
        mine = live if isinstance(live, dict) else {}
        theirs = config or {}
        if not mine and not theirs:
            return config
        return _merge_maps(mine, theirs, shape)
    if isinstance(config, list) or (config is None and isinstance(live, list)):
        if not shape.is_list or shape.atomic_list:
            return config
        items = live if isinstance(live, list) else []
        wanted = config or []
        if not items and not wanted:
            return config
        return _merge_lists(items, wanted, shape)
    return config


def _merge_maps(live: dict[str, Any], config: dict[str, Any], shape: Shape) -> Any:
    merged = dict(live)
    for name, value in config.items():
        if name not in live:
            merged[name] = value
            continue
        below = _merge(live[name], value, shape.child(name))
        if below is _GONE:
            del merged[name]
        else:
            merged[name] = below
    return merged or _GONE


def _merge_lists(live: list[Any], config: list[Any], shape: Shape) -> Any:
    live_keys = [shape.key_of(item) for item in live]
    config_keys = [shape.key_of(item) for item in config]
    wanted = dict(zip(config_keys, config, strict=True))
    there: dict[str, Any] = {}
    for key, item in zip(live_keys, live, strict=True):
        there[key] = None if key in there else item  # the configuration replaces duplicates
    merged = []
    for key, item in _in_order(live, live_keys, config_keys):
        if key not in wanted:
            merged.append(item)
            continue
        value = _merge(there[key], wanted[key], shape.item) if key in there else wanted[key]
        if value is not _GONE:
            merged.append(value)
    return merged or _GONE


def _in_order(live: list[Any], live_keys: list[str], config_keys: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield (key, item) in the order of the merged list; the item is None if its key is in `config`."""
    wanted, there = set(config_keys), set(live_keys)
    shared = [key for key in config_keys if key in there]
    done: set[str] = set()
    mine = theirs = turn = 0
    while mine < len(live) or theirs < len(config_keys):
        if mine < len(live):
            key = live_keys[mine]
            if key not in wanted:
                yield key, live[mine]
                mine += 1
                continue
            if theirs == len(config_keys) or key == config_keys[theirs]:
                mine += 1
            elif turn < len(shared) and shared[turn] != key:
                mine += 1  # its position comes from the configuration
                continue
            elif key in done:
                mine += 1
        if theirs < len(config_keys):
            key = config_keys[theirs]
            done.add(key)
            yield key, None
            theirs += 1
            turn += turn < len(shared) and shared[turn] == key


def without(value: Any, fields: Fields, shape: Shape) -> Any:
    """Return a copy of the value without these fields and items, or None if nothing remains."""
    if isinstance(value, dict):
        if not shape.is_map or shape.atomic_map or not value:
            return None
        kept: dict[str, Any] = {}
        for name, below in value.items():
            node = fields.get("f:" + name)
            if node is None:
                kept[name] = below
            elif not is_member(node):
                kept[name] = without(below, node, shape.child(name))
        return kept or None
    if isinstance(value, list):
        if not shape.is_list or shape.atomic_list or not value:
            return None
        items: list[Any] = []
        for item in value:
            node = fields.get(shape.key_of(item))
            if node is None:
                items.append(item)
            elif not is_member(node):
                items.append(without(item, node, shape.item))
        return items or None
    return value


def named_too(fields: Fields, shape: Shape | None) -> Fields:
    """Return the set, and add each parent of a member if the schema defines the parent as a field."""
    more: Fields = {}
    for key, node in fields.items():
        if not node:
            more[key] = node
            continue
        below: Shape | None = None
        named = False
        if shape is not None and key[0] == "f" and shape.is_map:
            name = key[2:]
            known = shape.fields.get(name)
            named = known is not None
            below = known or shape.element or DEDUCED
        elif shape is not None and key[0] == "k" and shape.is_list:
            below = shape.item
        inner = named_too(node, below)
        more[key] = {MEMBER: LEAF, **inner} if named and MEMBER not in inner else inner
    return more
