"""Comparison of an object with the wanted object, which finds whether an apply would change anything.

Server-side apply records the fields of each field manager (see `managed_fields`). From this record and the
live object, `Client.apply` finds without a request whether an apply would change anything: it would not if
the object has every wanted field with our value, and we own exactly these. The record also shows which lists
are merged by key (`k:{...}`), are sets (`v:...`), or are replaced as a whole.

All values are decoded JSON: maps are dicts, and lists are lists. Checks for dict, instead of any `Mapping`,
make the comparison several times as fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import orjson

Fields = Mapping[str, Any]
"""A FieldsV1 record, or its part below a step."""

MISSING = object()
"""Stands for a missing field: no wanted value equals it."""


def matches(wanted: Fields, live: Fields, owned: Fields, *, exact: bool) -> bool:
    """Return whether `live` has every wanted field with the wanted value, and `owned` records the field.

    `exact` also requires that `owned` has no other field, so that an apply of `wanted` would change nothing.
    After our create, other owned fields are allowed: the server counts its defaults as the creator's fields.
    A wanted field that is not owned never matches, because an apply would record it.
    """
    for name, value in wanted.items():
        record = owned.get("f:" + name)
        there = live.get(name, MISSING)
        if record is None or not (
            value == there if value.__class__ is str else _value_matches(value, there, record, exact=exact)
        ):
            return False
    if exact:
        for path in owned:
            if path.startswith("f:") and path[2:] not in wanted:
                return False
    return True


def _value_matches(wanted: Any, live: Any, owned: Any, *, exact: bool) -> bool:
    if owned.__class__ is not dict:
        return False  # not in the server's format
    if not owned or (len(owned) == 1 and "." in owned):
        # Owned as a whole: a scalar, an atomic map or list, or an empty map.
        return _equal(wanted, live)
    if isinstance(wanted, dict):
        return isinstance(live, dict) and matches(wanted, live, owned, exact=exact)
    if isinstance(wanted, list):
        return isinstance(live, list) and _list_matches(wanted, live, owned, exact=exact)
    return _equal(wanted, live)


def _list_matches(wanted: Sequence[Any], live: Sequence[Any], owned: Fields, *, exact: bool) -> bool:
    """Return whether two lists match that are merged by keys or as sets.

    The server keeps the applied items in their order. Items of others may stand anywhere between them, and
    stay there. So an apply changes nothing if `live` has the wanted items in the wanted order.
    """
    # Other clients may make the record and the live list arbitrarily long. So search the live list for at
    # most as many paths as there are wanted items.
    unclaimed = len(wanted)
    places = [-1] * unclaimed
    for path, record in owned.items():
        if not path.startswith(("k:", "v:")):
            continue
        mine = place_in(wanted, path, defaulted=True)
        if mine is None:
            if exact:
                return False
            continue
        unclaimed -= 1
        theirs = place_in(live, path) if unclaimed >= 0 else None
        if theirs is None:
            return False
        if path[0] == "k" and not _value_matches(wanted[mine], live[theirs], record, exact=exact):
            return False
        places[mine] = theirs
    return unclaimed == 0 and all(one < other for one, other in pairwise(places))


def _equal(wanted: Any, live: Any) -> bool:
    if isinstance(wanted, dict):
        return (
            isinstance(live, dict)
            and wanted.keys() == live.keys()
            and all(_equal(value, live[name]) for name, value in wanted.items())
        )
    if isinstance(wanted, list):
        return isinstance(live, list) and len(wanted) == len(live) and all(map(_equal, wanted, live))
    if wanted.__class__ is bool or live.__class__ is bool:
        return wanted is live
    return bool(wanted == live)


def place_in(items: Sequence[Any], step: str, *, defaulted: bool = False) -> int | None:
    """Return the index of the item that a FieldsV1 step names; None if there is no such item.

    `defaulted`: the items may lack key fields that the server fills with defaults.
    """
    named = parsed(step[2:])  # {"name":"web"} of `k:{"name":"web"}`, "web" of `v:"web"`
    if step.startswith("v:"):
        return items.index(named) if named in items else None
    if not step.startswith("k:") or not isinstance(named, dict):
        return None
    candidate: int | None = None
    for place, item in enumerate(items):
        if not isinstance(item, dict):
            return None
        if all(item.get(name, value) == value for name, value in named.items()):
            if named.keys() <= item.keys():
                return place
            if defaulted and candidate is None:
                candidate = place  # continue: another item may have all key fields
    return candidate


def parsed(raw: bytes | memoryview | str) -> Any:
    """Parse JSON; None if it is malformed, for example a number beyond a double's range."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
