"""An applied configuration merged into an object, and fields taken out of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from devcluster.patch.fields import LEAF, MEMBER, Fields, is_member
from devcluster.patch.shape import DEDUCED, Shape

__all__ = ["merge", "named_too", "without"]

_GONE: Final = object()


def merge(live: Any, config: Any, shape: Shape) -> Any:
    """Merge `config` into `live`, both of that shape; fields that `config` lacks stay. Neither is changed.

    Lists of items with keys take the order of `config` for shared keys; the other items keep their place.

    Raises:
        Untypable: an item of a list has no key.
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
        there[key] = None if key in there else item  # duplicates are not merged with
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
    """Yield both lists' keys in the order of the result, with the item for keys only in `live`."""
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
                mine += 1  # it follows in the configuration's order
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
    """Return a copy without those fields and items, or None if the copy is empty."""
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
    """Return the set with the named fields on the path to its members added."""
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
