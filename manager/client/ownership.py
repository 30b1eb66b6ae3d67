"""Which fields of an object are ours, and whether it already holds all that we would apply.

Server-side apply records per field manager which fields it owns (`metadata.managedFields`, format
FieldsV1). Walking that record beside the wanted object and the live one answers, without a request, the
question the server would answer: every field we want is there with our value, and we own nothing that we
no longer want. The record also says what no client can know without the schema: which lists are merged by
key (`k:{...}`), which are sets (`v:...`), and which are replaced whole.

Format: https://kubernetes.io/docs/reference/generated/kubernetes-api/ (FieldsV1).

All values are JSON as it is decoded: maps are dicts, and lists are lists. To ask for that and not for any
`Mapping` makes the walk several times as fast.

A record that is not in that format holds nothing: then an apply is sent, by which the server writes it anew.

An object that is not there yet is created with POST, not with an apply: it costs the API server about a
third less, and it is safer, because POST never takes over an object that somebody else made meanwhile. The
server books a POST as operation `Update` and counts its own defaults as ours, which a later apply could
neither compare nor take back. So the create is booked under a name that carries a digest of what was
wanted (`memcached+1f0c…`): as long as the same is wanted, that entry answers for it, and before the first
apply of something else it is renamed to a real apply entry, which then owns everything and lets go of what
is no longer wanted. (kubectl moves from client-side to server-side apply the same way.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class OwnEntries:
    """What the server has booked for one field manager: FieldsV1 records, None where there is no entry."""

    applied: Mapping[str, Any] | None
    created: Mapping[str, Any] | None
    created_by: str


def creator_name(field_manager: str, wanted: bytes) -> str:
    """The name under which creating `wanted` is booked."""
    return f"{field_manager}+{hashlib.blake2b(wanted, digest_size=6).hexdigest()}"


def own_entries(managed_fields: Sequence[Mapping[str, Any]], field_manager: str) -> OwnEntries:
    """Pick the entries of `field_manager` for the object itself (subresources are booked apart).

    One whose record is not in the server's format counts as one without fields.
    """
    applied = created = None
    created_by = ""
    for entry in managed_fields:
        if entry.get("subresource"):
            continue
        manager, operation, fields = entry.get("manager"), entry.get("operation"), entry.get("fieldsV1")
        if not isinstance(manager, str):
            continue
        if not isinstance(fields, dict):
            fields = {}
        if operation == "Apply" and manager == field_manager:
            applied = fields
        elif operation == "Update" and manager.startswith(field_manager + "+"):
            created, created_by = fields, manager
    return OwnEntries(applied, created, created_by)


def takeover_patch(
    managed_fields: Sequence[Mapping[str, Any]], field_manager: str
) -> list[dict[str, Any]] | None:
    """The JSON patch that turns the entry of our create into an apply entry; None when there is none.

    It tests what it renames, so a concurrent change of the list refuses it instead of corrupting it, and
    other managers' writes in between (a status update, say) do not.
    """
    for position, entry in enumerate(managed_fields):
        if entry.get("operation") != "Update" or entry.get("subresource"):
            continue
        manager = entry.get("manager")
        if not isinstance(manager, str) or not manager.startswith(field_manager + "+"):
            continue
        path = f"/metadata/managedFields/{position}"
        return [
            {"op": "test", "path": f"{path}/manager", "value": manager},
            {"op": "replace", "path": f"{path}/manager", "value": field_manager},
            {"op": "replace", "path": f"{path}/operation", "value": "Apply"},
        ]
    return None


def holds_exactly(wanted: Mapping[str, Any], live: Mapping[str, Any], owned: Mapping[str, Any]) -> bool:
    """True when applying `wanted` over `live` would change nothing, ownership included.

    `owned` is the FieldsV1 record of the applying manager. A field it owns that is not wanted any more
    means that an apply would remove it; a wanted field it does not own means that an apply would take it.
    """
    return _map_matches(wanted, live, owned, exact=True)


def holds(wanted: Mapping[str, Any], live: Mapping[str, Any], owned: Mapping[str, Any]) -> bool:
    """True when `live` has every wanted field with the wanted value; what else is owned does not matter.

    For objects we created: the server books its defaults under the creator's name too, so the record owns
    more than was wanted.
    """
    return _map_matches(wanted, live, owned, exact=False)


KEYS = (
    "containerPort",
    "devicePath",
    "driver",
    "ip",
    "mountPath",
    "name",
    "port",
    "resourceID",
    "rule",
    "topologyKey",
    "type",
    "uid",
)
"""Of the keys by which lists of Kubernetes' own kinds are merged, one of each list. Custom kinds' lists are
checked by the server when they are created, too."""


def may_repeat_keys(wanted: Any) -> bool:
    """Return whether any list may have two items with one key, or a value twice.

    Without the schema nobody knows it for sure: True also for two mounts of one volume, False never where an
    apply would say `duplicate entries for key`.
    """
    if isinstance(wanted, dict):
        return any(map(may_repeat_keys, wanted.values()))
    if not isinstance(wanted, list):
        return False
    seen = set[Any]()
    for item in wanted:
        keys: list[Any] = [str(item)]
        if isinstance(item, dict):
            keys = [(name, str(item[name])) for name in KEYS if name in item] or [()]
        if not seen.isdisjoint(keys):
            return True
        seen.update(keys)
    return any(map(may_repeat_keys, wanted))


_MISSING = object()
"""In place of a field that is not there: nothing that is wanted equals it."""


def _map_matches(
    wanted: Mapping[str, Any], live: Mapping[str, Any], owned: Mapping[str, Any], *, exact: bool
) -> bool:
    for name, value in wanted.items():
        record = owned.get("f:" + name)
        if record is None:
            return False
        there = live.get(name, _MISSING)
        if value.__class__ is str:
            # Most are so, and have no parts.
            if value != there:
                return False
        elif not record:
            if not _equal(value, there):
                return False
        elif not _matches(value, there, record, exact=exact):
            return False
    if exact:
        for path in owned:
            if path.startswith("f:") and path[2:] not in wanted:
                return False
    return True


def _matches(wanted: Any, live: Any, owned: Mapping[str, Any], *, exact: bool) -> bool:
    if owned.__class__ is not dict:
        return False  # not the server's format
    if not owned or (len(owned) == 1 and "." in owned):
        # Owned as one piece: a scalar, an atomic map or list, or an empty map.
        return _equal(wanted, live)
    if isinstance(wanted, dict):
        return isinstance(live, dict) and _map_matches(wanted, live, owned, exact=exact)
    if isinstance(wanted, list):
        return isinstance(live, list) and _list_matches(wanted, live, owned, exact=exact)
    return _equal(wanted, live)


def _list_matches(
    wanted: Sequence[Any], live: Sequence[Any], owned: Mapping[str, Any], *, exact: bool
) -> bool:
    """Compare a list that is merged by keys, or as a set.

    The server puts the applied items into their own order. Items of others may stand anywhere between them,
    and stay there. So an apply changes nothing if the wanted items stand in `live` in the wanted order.
    """
    # Whoever may write the object makes the record and the live list as long as they like. So the live list
    # is looked through for no more paths than there are wanted items.
    unclaimed = len(wanted)
    places = [-1] * unclaimed
    for path, record in owned.items():
        keyed = path.startswith("k:")
        if not keyed and not path.startswith("v:"):
            continue
        named = _named(path)
        if named is None or (keyed and not isinstance(named, dict)):
            return False
        mine = _place_of_item(wanted, named, defaulted=True) if keyed else _place_of_value(wanted, named)
        if mine is None:
            if exact:
                return False
            continue
        unclaimed -= 1
        if unclaimed < 0:
            return False
        theirs = _place_of_item(live, named, defaulted=False) if keyed else _place_of_value(live, named)
        if theirs is None or (keyed and not _item_matches(wanted[mine], live[theirs], record, exact=exact)):
            return False
        places[mine] = theirs
    return unclaimed == 0 and all(one < other for one, other in pairwise(places))


def _item_matches(
    wanted: Mapping[str, Any], live: Mapping[str, Any], owned: Mapping[str, Any], *, exact: bool
) -> bool:
    """`_matches` for an item of a list. Thousands of objects have the same container, so it remembers."""
    if owned.__class__ is not dict or len(owned) <= _FEW:
        return _matches(wanted, live, owned, exact=exact)
    # By Python's own hashes: their key is another one in each process, and nobody outside knows it.
    state = hash((orjson.dumps(wanted), orjson.dumps(live), orjson.dumps(owned), exact))
    if state in _matching_items:
        return True
    if not _matches(wanted, live, owned, exact=exact):
        return False
    if len(_matching_items) >= _MOST_MATCHING_ITEMS:
        _matching_items.clear()
    _matching_items.add(state)
    return True


_FEW = 4
"""Fields that are compared as fast as they are looked up."""

_MOST_MATCHING_ITEMS = 10_000
_matching_items = set[int]()


def _named(path: str) -> Any:
    """What `k:{"name":"web"}` or `v:"web"` names, None if it is not JSON; the same few come all the time."""
    return _read_often(path) if len(path) <= _OFTEN else _read(path)


def _read(path: str) -> Any:
    try:
        return orjson.loads(path[2:])
    except orjson.JSONDecodeError:
        return None


_OFTEN = 200
"""Characters of what is kept once it was read: who may write an object can have a megabyte there."""

_read_often = lru_cache(maxsize=1024)(_read)


def wants_otherwise(wanted: Any, live: Any, owned: Mapping[str, Any]) -> bool:
    """Return whether a field that we have applied has still its value, and is not wanted with it any more.

    Whoever changes a field becomes its owner. So what differs, and is owned by us, was applied by us.
    """
    for path, record in owned.items():
        if path == "." or record.__class__ is not dict:
            continue
        mine, theirs = _at(wanted, path, defaulted=True), _at(live, path, defaulted=False)
        if mine is _MISSING:
            return True
        if theirs is _MISSING:
            continue
        if not record or (len(record) == 1 and "." in record):
            if not _equal(mine, theirs):
                return True
        elif wants_otherwise(mine, theirs, record):
            return True
    return False


def _at(there: Any, path: str, *, defaulted: bool) -> Any:
    """Follow one step of a FieldsV1 record."""
    if path.startswith("f:"):
        return there.get(path[2:], _MISSING) if isinstance(there, dict) else _MISSING
    named = _named(path)
    if not isinstance(there, list):
        return _MISSING
    if isinstance(named, dict):
        place = _place_of_item(there, named, defaulted=defaulted)
    else:
        place = _place_of_value(there, named)
    return _MISSING if place is None else there[place]


def _place_of_value(items: Sequence[Any], value: Any) -> int | None:
    return items.index(value) if value in items else None


def _place_of_item(items: Sequence[Any], key: Mapping[str, Any], *, defaulted: bool) -> int | None:
    """Find the list-map item with that key. A wanted item may leave key fields to the server's defaults."""
    candidate: int | None = None
    for place, item in enumerate(items):
        if not isinstance(item, dict):
            return None
        spelled_out = True
        for name, value in key.items():
            if name not in item:
                spelled_out = False
            elif item[name] != value:
                break
        else:
            if spelled_out:
                return place
            if defaulted and candidate is None:
                candidate = place  # kept back: another item may spell the whole key out
    return candidate


def _equal(wanted: Any, live: Any) -> bool:
    if wanted.__class__ is str:
        return bool(wanted == live)
    if isinstance(wanted, dict):
        if not isinstance(live, dict) or wanted.keys() != live.keys():
            return False
        for name, value in wanted.items():
            # A call only where one is needed: it costs more than the comparison of text.
            if value != live[name] if value.__class__ is str else not _equal(value, live[name]):
                return False
        return True
    if wanted.__class__ is bool or live.__class__ is bool:
        return wanted is live
    return bool(wanted == live)
