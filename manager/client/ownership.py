"""Ownership of an object's fields, and the check whether the object already has everything to apply.

Server-side apply records per field manager which fields it owns (`metadata.managedFields`, format
FieldsV1). A walk along that record, the wanted object and the live one answers, without a request, the
question that the server would answer: the object has every wanted field with our value, and we own no field
beyond these. The record also says what a client cannot know without the schema: which lists are merged by
key (`k:{...}`), which are sets (`v:...`), and which are replaced whole.

Format: https://kubernetes.io/docs/reference/generated/kubernetes-api/ (FieldsV1).

All values are JSON as it is decoded: maps are dicts, and lists are lists. Checks for dict, instead of any
`Mapping`, make the walk several times as fast.

A record in any other format counts as empty: the client then sends an apply, and the server rewrites the
record.

A missing object is created with POST, not with an apply: it costs the API server about a third less, and it
is safer, because POST never takes over an object that another client made meanwhile. The server records a
POST as operation `Update` and counts its own defaults as ours, which a later apply could neither compare nor
take back. So the create uses a manager name that carries a digest of the wanted object
(`memcached+1f0c…`). As long as the wanted object stays the same, that entry answers for it. Before the first
apply of another one, the client renames the entry to a real apply entry. This entry then owns everything, and
the apply lets go of fields that are no longer wanted. (kubectl moves from client-side to server-side apply
the same way.) The entries of former field managers join it then, too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class OwnEntries:
    """The managedFields entries of one field manager: FieldsV1 records, None for a missing entry."""

    applied: Mapping[str, Any] | None
    created: Mapping[str, Any] | None
    created_by: str
    former: bool
    """Whether a former field manager has an entry that has to be taken over."""

    def owns(self, paths: Iterable[Path]) -> bool:
        """Return whether it owns any of the fields, or something below it."""
        records = (self.applied or {}, self.created or {})
        return any(has_field(record, path) for path in paths for record in records)


def setters(
    managed_fields: Sequence[Mapping[str, Any]], path: Path, field_manager: str, former: Sequence[str] = ()
) -> list[str] | None:
    """Return the other field managers that own a field; None if it is ours."""
    found = [
        str(entry.get("manager"))
        for entry in managed_fields
        if not entry.get("subresource") and has_field(entry.get("fieldsV1"), path)
    ]
    ours = {field_manager, *former}
    return None if any(name.partition("+")[0] in ours for name in found) else found


def creator_name(field_manager: str, wanted: bytes) -> str:
    """Return the manager name for the creation of `wanted`."""
    return f"{field_manager}+{hashlib.blake2b(wanted, digest_size=6).hexdigest()}"


def own_entries(live: Mapping[str, Any], field_manager: str, former: Sequence[str] = ()) -> OwnEntries:
    """Pick an object's entries of `field_manager` for itself (subresources are booked apart).

    One whose record is not in the server's format counts as one without fields.
    """
    managed_fields = live["metadata"].get("managedFields", ())
    applied = created = None
    created_by = ""
    for entry in managed_fields:
        sort = _sort(entry, field_manager, ())
        fields = entry.get("fieldsV1")
        if not isinstance(fields, dict):
            fields = {}
        if sort == "applied":
            applied = fields
        elif sort == "created":
            created, created_by = fields, entry["manager"]
    taken = _taken_over(managed_fields, field_manager, former) if former else []
    has_former = any(managed_fields[place]["manager"].partition("+")[0] in former for place in taken)
    return OwnEntries(applied, created, created_by, has_former)


def _sort(entry: Mapping[str, Any], field_manager: str, former: Sequence[str]) -> str:
    manager, operation = entry.get("manager"), entry.get("operation")
    if entry.get("subresource") or not isinstance(manager, str):
        return ""
    if operation == "Apply" and manager == field_manager:
        return "applied"
    if operation == "Update" and manager.startswith(field_manager + "+"):
        return "created"
    return "former" if manager.partition("+")[0] in former else ""


def _taken_over(entries: Sequence[Mapping[str, Any]], field_manager: str, former: Sequence[str]) -> list[int]:
    """Return the indexes of the entries to merge; the first is the entry that receives the others.

    That is our own apply, if there is one.
    """
    found = ((place, _sort(each, field_manager, former)) for place, each in enumerate(entries))
    sorts = {place: sort for place, sort in found if sort}
    return sorted(sorts, key=lambda place: ("applied", "created", "former").index(sorts[place]))


def version_patch(
    managed_fields: Sequence[Mapping[str, Any]],
    field_manager: str,
    former: Sequence[str],
    released: Sequence[Path],
    version: str,
) -> tuple[str, list[dict[str, Any]]] | None:
    """Prepare to merge the entries that one other version of the kind has to hand over.

    Only the server can translate fields between versions. So an apply of the wanted object, under the
    returned name, removes the other fields of that version, and records the rest in `version`; then the entry
    can join ours. Return the name and the JSON patch before that apply, None when all entries are of one
    version.
    """
    places = _taken_over(managed_fields, field_manager, former) if former else []
    versions = {str(managed_fields[place].get("apiVersion")) for place in places}
    others = versions - {version}
    if not others or len(versions) == 1:
        return None
    other = min(others)
    places = [place for place in places if managed_fields[place].get("apiVersion") == other]
    name = creator_name(former[0], other.encode())
    return name, _join_patch(managed_fields, places, name, released)


def takeover_patch(
    managed_fields: Sequence[Mapping[str, Any]],
    field_manager: str,
    former: Sequence[str] = (),
    released: Sequence[Path] = (),
) -> list[dict[str, Any]] | None:
    """Return the JSON patch that merges our entries into one apply entry; None if that is not needed.

    The entry gets the fields of our create and of former managers, as `csaupgrade` of client-go does it,
    except the `released` fields, which lose their owner. The patch tests each entry that it changes. So the
    server refuses it after a concurrent change of the list, instead of corrupting the list, and accepts it
    after other managers' writes, such as a status update.
    """
    places = _taken_over(managed_fields, field_manager, former)
    return (_join_patch(managed_fields, places, field_manager, released) or None) if places else None


def _join_patch(
    managed_fields: Sequence[Mapping[str, Any]], places: Sequence[int], name: str, released: Sequence[Path]
) -> list[dict[str, Any]]:
    """Return the JSON patch that joins these entries to the first, under a name; empty if that is so."""
    entries = [managed_fields[place] for place in places]
    fields = _joined(entries, released)
    joined = {**entries[0], "manager": name, "operation": "Apply", "fieldsV1": fields}
    if entries == [joined]:
        return []
    at = "/metadata/managedFields/"
    tests = [
        {"op": "test", "path": f"{at}{place}", "value": entry}
        for place, entry in zip(places, entries, strict=True)
    ]
    removals = [{"op": "remove", "path": f"{at}{place}"} for place in sorted(places[1:], reverse=True)]
    return [*tests, {"op": "replace", "path": f"{at}{places[0]}", "value": joined}, *removals]


def shares(
    managed_fields: Sequence[Mapping[str, Any]],
    field_manager: str,
    former: Sequence[str],
    released: Sequence[Path],
    version: str,
) -> tuple[Mapping[str, Any], list[tuple[str, Mapping[str, Any]]]]:
    """Return the record of our entries and former ones, joined, and the records of other managers.

    An entry of another version of the kind names other fields, so it counts as another manager's.
    """
    places = [
        place
        for place in _taken_over(managed_fields, field_manager, former)
        if managed_fields[place].get("apiVersion", version) == version
    ]
    others: list[tuple[str, Mapping[str, Any]]] = [
        (str(entry.get("manager", "")), fields)
        for place, entry in enumerate(managed_fields)
        if place not in places and isinstance(fields := entry.get("fieldsV1"), dict)
    ]
    return _joined([managed_fields[place] for place in places], released), others


def _joined(entries: Sequence[Mapping[str, Any]], released: Sequence[Path]) -> dict[str, Any]:
    """Return the fields of all entries in one record, except the `released`."""
    fields: dict[str, Any] = {}
    for entry in entries:
        fields = merged(fields, record if isinstance(record := entry.get("fieldsV1"), dict) else {})
    for path in released:
        fields = _without(fields, path)
    return fields


Path = tuple[str, ...]
"""The steps to a field, as FieldsV1 has them: `("f:spec", "f:replicas")`."""

_step = re.compile(r"""\.?([^.\[\]]+) | \[([^\]]*)\]""", re.VERBOSE)


def field_path(text: str) -> Path:
    """Read a path as the server writes it: `.spec.template.spec.containers[name="web"].resources`.

    Raises ValueError if it is none.
    """
    for prefix in (".metadata.labels.", ".metadata.annotations."):
        if (rest := f".{text.removeprefix('.')}").startswith(prefix):
            return ("f:metadata", f"f:{prefix.split('.')[2]}", f"f:{rest.removeprefix(prefix)}")
    steps: list[str] = []
    end = 0
    while end < len(text):
        found = _step.match(text, end)
        if found is None:
            break
        end = found.end()
        steps.append(f"f:{found[1]}" if found[1] else _keyed(found[2]))
    if not steps or end < len(text) or "" in steps or not steps[0].startswith("f:"):
        raise ValueError(f'{text!r} is no path of a field, such as .spec.containers[name="web"].image')
    return tuple(steps)


def _keyed(text: str) -> str:
    """Return the step to a list's item, "" if the text between brackets names none."""
    parts = [part.partition("=") for part in text.split(",")]
    try:
        key = {name.strip(): orjson.loads(value) for name, _, value in parts}
    except orjson.JSONDecodeError:
        return ""
    return f"k:{orjson.dumps(key, option=orjson.OPT_SORT_KEYS).decode()}"


def field_name(path: Path) -> str:
    """Return a path as the server writes it: `.spec.template.spec.containers[name="web"].resources`."""
    return "".join(map(_step_name, path))


def _step_name(step: str) -> str:
    if step.startswith("f:"):
        return f".{step[2:]}"
    named = _named(step)
    parts = named.items() if isinstance(named, dict) else [("", named)]
    return f"[{','.join(f'{name}={orjson.dumps(value).decode()}' for name, value in parts)}]"


def release(there: Any, owned: Mapping[str, Any], kept: Sequence[Mapping[str, Any]]) -> None:
    """Remove the fields that `owned` names, except those in `kept`, from a map or a list."""
    for path, below in owned.items():
        step: Any = path[2:]
        if path.startswith("f:") and isinstance(there, dict):
            if step not in there:
                continue
        elif path.startswith(("k:", "v:")) and isinstance(there, list):
            step = place_in(there, path)
            if step is None:
                continue
        else:
            continue
        others = [each[path] for each in kept if path in each]
        parts = [each for each in below if each != "."]
        if parts:
            release(there[step], below, others)
        if not others and (not parts or not there[step]):
            del there[step]


def without_fields(wanted: Any, paths: Sequence[Path]) -> Any:
    """Return JSON without the fields at these paths and share the rest with it."""
    for path in paths:
        wanted = _without_field(wanted, path)
    return wanted


def _without_field(there: Any, path: Path) -> Any:
    step, rest = path[0], path[1:]
    below = _at(there, step, defaulted=True)
    if below is _MISSING:
        return there
    left = _without_field(below, rest) if rest else _MISSING
    if isinstance(there, dict):
        kept = {name: value for name, value in there.items() if f"f:{name}" != step}
        return kept if left is _MISSING else {**there, step[2:]: left}
    return [left if item is below else item for item in there if item is not below or left is not _MISSING]


def has_field(record: Any, path: Path) -> bool:
    """Return whether a record names the field at a path, or something below it."""
    for step in path:
        if record.__class__ is not dict or step not in record:
            return False
        record = record[step]
    return True


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of both JSON objects; `other` wins where both have a field that is no object."""
    result = dict(one)
    for name, value in other.items():
        there = result.get(name)
        both = isinstance(there, Mapping) and isinstance(value, Mapping)
        result[name] = merged(there, value) if both else value  # type: ignore[arg-type]
    return result


def _without(record: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a record without a field, and without the parents that this leaves empty."""
    step, rest = path[0], path[1:]
    if step not in record:
        return record
    left = _without(below, rest) if rest and isinstance(below := record[step], dict) else {}
    kept = {name: value for name, value in record.items() if name != step}
    return {**kept, step: left} if left else kept


KEYS = frozenset(
    (
        *("containerPort", "devicePath", "driver", "ip", "mountPath", "name"),
        *("port", "resourceID", "rule", "topologyKey", "type", "uid"),
    )
)
"""Of the keys by which lists of Kubernetes' own kinds are merged, one of each list. Custom kinds' lists are
checked by the server when they are created, too."""


def may_repeat_keys(wanted: dict[str, Any] | list[Any]) -> bool:
    """Return whether any list of an object's JSON may have two items with one key, or a value twice.

    Only the schema would say it for sure: True also for two mounts of one volume, False never where an
    apply would say `duplicate entries for key`.
    """
    items = wanted.values() if isinstance(wanted, dict) else wanted
    if items is wanted and len(wanted) > 1:
        seen = set[Any]()
        for item in wanted:
            if isinstance(item, dict):
                keys: list[Any] = [(name, str(item[name])) for name in KEYS & item.keys()] or [()]
            else:
                keys = [str(item)]
            if not seen.isdisjoint(keys):
                return True
            seen.update(keys)
    return any(may_repeat_keys(item) for item in items if isinstance(item, (dict, list)))


_MISSING = object()
"""In place of a field that is not there: nothing that is wanted equals it."""


def holds(
    wanted: Mapping[str, Any], live: Mapping[str, Any], owned: Mapping[str, Any], *, exact: bool
) -> bool:
    """Return whether `live` has every wanted field with the wanted value, under the record `owned`.

    With `exact`, an apply of `wanted` would change nothing, ownership included: a field that is owned and no
    longer wanted would be removed. For an object that we created it may be owned: the server books its
    defaults under the creator's name, too. A wanted field that is not owned would be taken by an apply.
    """
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
        return isinstance(live, dict) and holds(wanted, live, owned, exact=exact)
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
    """Call `_matches` for a list item and cache matches: thousands of objects have the same container."""
    if owned.__class__ is not dict or len(owned) <= _FEW:
        return _matches(wanted, live, owned, exact=exact)
    # Python's own hashes have a random key for each process, so no client can construct collisions.
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
    """Parse the JSON in `k:{"name":"web"}` or `v:"web"`, None if malformed; cache short, frequent ones."""
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
    """Return whether a field still has the value that we applied, and should have another or none.

    A client that changes a field becomes its owner. So a field that differs, and that we own, is from our
    apply.
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
    if not isinstance(there, list):
        return _MISSING
    place = place_in(there, path, defaulted=defaulted)
    return _MISSING if place is None else there[place]


def place_in(items: Sequence[Any], step: str, *, defaulted: bool = False) -> int | None:
    """Return the place of the item that a step of a FieldsV1 record names, None if it is not there.

    `defaulted`: the items may leave fields of their keys to the server's defaults.
    """
    named = _named(step)
    if step.startswith("k:"):
        return _place_of_item(items, named, defaulted=defaulted) if isinstance(named, dict) else None
    return _place_of_value(items, named) if step.startswith("v:") else None


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
