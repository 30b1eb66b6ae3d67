"""The fields that each field manager owns (`metadata.managedFields`), and patches that change the owner.

A record of fields has the format FieldsV1:
https://kubernetes.io/docs/reference/generated/kubernetes-api/. A record in an unknown format counts as empty:
the client then sends an apply, and the server rewrites the record.

A missing object is created with POST instead of apply. POST costs the server less (docs/decisions/05), and it
never changes an object that another client has just created. The server records a POST as operation `Update`
and counts its own defaults as ours, which a later apply could neither compare nor remove. So the create uses
a manager name with a digest of the wanted object (`memcached+1f0c…`). While the wanted object stays the same,
that entry proves the match. Before the first different apply, the client renames the entry to a real apply
entry, which then owns everything, and the apply releases unwanted fields. (kubectl moves from client-side to
server-side apply the same way.) The entries of former field managers are merged into it, too.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypedDict

import msgspec
import orjson

from manager.api import Resource
from manager.cache.record import Change, note_own_write
from manager.client.comparison import MISSING, Fields, parsed, place_in
from manager.client.errors import FieldConflict
from manager.client.write import merge_diff
from manager.kube.decoding import MALFORMED, json_object, not_a

Path = tuple[str, ...]
"""The steps to a field in FieldsV1 notation: `("f:spec", "f:replicas")`."""


def creator_name(field_manager: str, wanted: bytes) -> str:
    """Return the manager name for the creation of `wanted`."""
    return f"{field_manager}+{hashlib.blake2b(wanted, digest_size=6).hexdigest()}"


class Ownership:
    """The managedFields of an object from the view of one field manager, without subresources.

    Attributes:
        live, metadata, uid, version: the object's JSON, and parts of it. A cached object lacks managedFields.
        created_by: the manager name of our create, "" without one.
        former: whether a former field manager has an entry to take over.
    """

    def __init__(
        self,
        live: dict[str, Any],
        field_manager: str,
        former: Sequence[str] = (),
        *,
        managed: bytes = b"",
    ) -> None:
        """Read the managedFields of `live`, or `managed` instead: see `Record.managed`."""
        self.live = live
        self.metadata: dict[str, Any] = live["metadata"]
        self.uid: str = self.metadata.get("uid", "")
        self.version = self.metadata.get("resourceVersion")
        self._applied: Any = None
        self._created: Any = None
        self.created_by = ""
        self.former = False
        self._entries: Sequence[Fields] = self.metadata.get("managedFields", ())
        if managed:
            try:
                self._entries = _decode_entries(managed)
            except MALFORMED:
                entries = parsed(managed)
                self._entries = [each for each in entries or () if isinstance(each, dict)]
        self._name, self._former_names = field_manager, former
        ours = []
        for place, entry in enumerate(self._entries):
            manager, operation = entry.get("manager"), entry.get("operation")
            fields = entry.get("fieldsV1") or {}
            if entry.get("subresource") or not isinstance(manager, str):
                continue
            if operation == "Apply" and manager == field_manager:
                self._applied = fields
                ours.append((0, place))
            elif operation == "Update" and manager.startswith(field_manager + "+"):
                self._created, self.created_by = fields, manager
                ours.append((1, place))
            elif manager.partition("+")[0] in former:
                self.former = True
                ours.append((2, place))
        # The indexes of our entries; the others are merged into the first: our apply, if it exists.
        self._ours = [place for _, place in sorted(ours)]

    @cached_property
    def applied(self) -> Fields | None:
        """Return the fields in the managedFields entry of our apply; None without such an entry."""
        return None if self._applied is None else _fields(self._applied)

    @cached_property
    def created(self) -> Fields | None:
        """Return the fields in the managedFields entry of our create; None without such an entry."""
        return None if self._created is None else _fields(self._created)

    def note_change_to(self, after: Ownership, wanted: Mapping[str, Any]) -> None:
        """Record the change to `after` as our own write, if only wanted fields have changed."""
        before, now = (
            each.live | {"metadata": {**each.metadata, **dict.fromkeys(_SET_BY_EACH_WRITE)}}
            for each in (self, after)
        )
        versions = [str(each.version) for each in (self, after)]
        if all(map(str.isdecimal, versions)) and _changed_only(wanted, before, now):
            note_own_write(Change(self.uid, *map(int, versions)))

    @cached_property
    def content(self) -> bytes:
        """Return the JSON of all fields that an apply can change, in the server's order."""
        fields = {name: value for name, value in self.live.items() if name not in ("status", "metadata")}
        fields["metadata"] = {name: self.metadata.get(name) for name in APPLIED_METADATA}
        return orjson.dumps(fields)

    def state(self) -> int:
        """Return a hash of the content and of our ownership."""
        # Python's own hashes have a random key in each process, so no client can construct collisions.
        owned = self._applied if self._created is None else self._created
        record = bytes(owned) if isinstance(owned, msgspec.Raw) else orjson.dumps(owned)
        return hash((self.content, record, self.created_by))

    def owns(self, paths: Iterable[Path]) -> bool:
        """Return whether we own any of the fields, or a field below one."""
        records = (self.applied or {}, self.created or {})
        return any(has_field(record, path) for path in paths for record in records)

    def setters(self, path: Path) -> list[str] | None:
        """Return the other field managers that own a field; None if we own it."""
        found = [
            str(entry.get("manager"))
            for entry in self._entries
            if not entry.get("subresource") and has_field(entry.get("fieldsV1"), path)
        ]
        ours = {self._name, *self._former_names}
        return None if any(name.partition("+")[0] in ours for name in found) else found

    def translation(self, released: Sequence[Path], version: str) -> tuple[str, list[dict[str, Any]]] | None:
        """Prepare the merge of our entries in another version of the kind.

        Only the server can translate fields between versions. So the returned JSON patch merges these entries
        into one with the returned manager name. An apply of the wanted object under that name then removes
        other fields from the entry, and records the rest in `version`. Afterwards, the entry can be merged
        into ours. Returns None without former managers, or if all entries have the same version.
        """
        versions = {place: str(self._entries[place].get("apiVersion")) for place in self._ours}
        others = {*versions.values()} - {version}
        if not self._former_names or not others or len({*versions.values()}) == 1:
            return None
        other = min(others)
        name = creator_name(self._former_names[0], other.encode())
        return name, self._join([place for place in self._ours if versions[place] == other], name, released)

    def takeover(self, released: Sequence[Path] = ()) -> list[dict[str, Any]] | None:
        """Return the JSON patch that merges our entries into one apply entry; None if none is needed.

        The entry gets the fields of our create and of former managers, as in `csaupgrade` of client-go,
        except the `released` fields, which lose their owner. The patch tests each entry that it changes. So
        the server refuses the patch if one of these entries has changed or moved, and accepts it if only
        other managers' entries have changed.
        """
        return (self._join(self._ours, self._name, released) or None) if self._ours else None

    def shares(self, released: Sequence[Path], version: str) -> tuple[Fields, list[tuple[str, Fields]]]:
        """Return our own and former managers' entries merged into one record, and other managers' records.

        An entry in another version of the kind has other field names, so it counts as another manager's
        entry.
        """
        ours = [each for each in self._ours if self._entries[each].get("apiVersion", version) == version]
        others: list[tuple[str, Fields]] = [
            (str(entry.get("manager", "")), fields)
            for place, entry in enumerate(self._entries)
            if place not in ours and isinstance(fields := entry.get("fieldsV1"), dict)
        ]
        return _joined([self._entries[place] for place in ours], released), others

    def _join(self, places: Sequence[int], name: str, released: Sequence[Path]) -> list[dict[str, Any]]:
        """Return the JSON patch that merges these entries into the first one; empty without a change."""
        entries = [self._entries[place] for place in places]
        fields = _joined(entries, released)
        joined = {**entries[0], "manager": name, "operation": "Apply", "fieldsV1": fields}
        if entries == [joined]:
            return []
        paths = [f"/metadata/managedFields/{place}" for place in places]
        return [
            *({"op": "test", "path": at, "value": each} for at, each in zip(paths, entries, strict=True)),
            {"op": "replace", "path": paths[0], "value": joined},
            *({"op": "remove", "path": f"/metadata/managedFields/{at}"} for at in sorted(places[1:])[::-1]),
        ]


class _Entry(TypedDict, total=False):
    """An entry of managedFields whose fields stay undecoded."""

    manager: str
    operation: str
    subresource: str
    fieldsV1: msgspec.Raw


_decode_entries = msgspec.json.Decoder(list[_Entry]).decode


def _fields(value: Any) -> Fields:
    """Return a FieldsV1 record; empty if it has an unknown format."""
    fields = parsed(memoryview(value)) if isinstance(value, msgspec.Raw) else value
    return fields if isinstance(fields, dict) else {}


def _joined(entries: Iterable[Fields], released: Sequence[Path]) -> dict[str, Any]:
    """Return the fields of all entries in one record, except the `released` fields."""
    fields: dict[str, Any] = {}
    for entry in entries:
        fields = _merged(fields, each if isinstance(each := entry.get("fieldsV1"), dict) else {})
    for path in released:
        fields = _without(fields, path)
    return fields


def _merged(one: Fields, other: Fields) -> dict[str, Any]:
    """Return the fields of both records; if both have a scalar field, the value in `other` wins."""
    result = dict(one)
    for name, value in other.items():
        there = result.get(name)
        both = isinstance(there, Mapping) and isinstance(value, Mapping)
        result[name] = _merged(there, value) if both else value  # type: ignore[arg-type]
    return result


def _without(record: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a record without a field, and without parents that become empty."""
    step, rest = path[0], path[1:]
    if step not in record:
        return record
    left = _without(below, rest) if rest and isinstance(below := record[step], dict) else {}
    kept = {name: value for name, value in record.items() if name != step}
    return {**kept, step: left} if left else kept


def has_field(record: Any, path: Path) -> bool:
    """Return whether a record names the field at a path, or a field below it."""
    for step in path:
        if record.__class__ is not dict or step not in record:
            return False
        record = record[step]
    return True


def decoded(kind: type[Resource], raw: bytes) -> dict[str, Any]:
    """Parse an object's JSON and check the metadata that this module needs; raises ProtocolError."""
    what = f"a {kind.gvk.kind} object"
    live = json_object(raw, what)
    metadata = live.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("uid"), str):
        raise not_a(what)
    for name in ("managedFields", "ownerReferences"):
        entries = metadata.get(name, ())
        if not isinstance(entries, list | tuple) or not {*map(type, entries)} <= {dict}:
            raise not_a(what)
    return live


def _changed_only(wanted: Any, before: Any, after: Any) -> bool:
    """Return whether all differences between two JSON values are wanted values outside of lists."""
    if before == after and orjson.dumps(before) == orjson.dumps(after):  # in Python, 1 equals True
        return True
    if isinstance(before, dict) and isinstance(after, dict):
        asked = wanted if isinstance(wanted, dict) else {}
        return before.keys() <= after.keys() and all(
            _changed_only(asked.get(name, MISSING), before.get(name, MISSING), value)
            for name, value in after.items()
        )
    if isinstance(before, list):
        return False  # another client may have removed an item
    return bool(wanted == after) and orjson.dumps(wanted) == orjson.dumps(after)


_SET_BY_EACH_WRITE = ("resourceVersion", "generation", "managedFields")


def owned_fields(wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an apply whose ownership the server records."""
    fields = {name: value for name, value in wanted.items() if name not in ("apiVersion", "kind", "metadata")}
    metadata = {name: wanted["metadata"][name] for name in APPLIED_METADATA if name in wanted["metadata"]}
    return fields | {"metadata": metadata} if metadata else fields


_step = re.compile(r"""\.?([^.\[\]]+) | \[([^\]]*)\]""", re.VERBOSE)
_keys = re.compile(r"\.?metadata\.(labels|annotations)\.(.*)", re.DOTALL).fullmatch


def field_path(text: str) -> Path:
    """Parse a path in the server's notation: `.spec.template.spec.containers[name="web"].resources`.

    Raises ValueError for an invalid path.
    """
    if found := _keys(text):
        return ("f:metadata", f"f:{found[1]}", f"f:{found[2]}")
    steps: list[str] = []
    end = 0
    while found := _step.match(text, end):
        end = found.end()
        steps.append(f"f:{found[1]}" if found[1] else _keyed(found[2]))
    if not steps or end < len(text) or "" in steps or not steps[0].startswith("f:"):
        raise ValueError(f'{text!r} is no path of a field, such as .spec.containers[name="web"].image')
    return tuple(steps)


def _keyed(text: str) -> str:
    """Return the FieldsV1 step for the text between brackets; "" if the text identifies no list item."""
    parts = [part.partition("=") for part in text.split(",")]
    try:
        key = {name.strip(): orjson.loads(value) for name, _, value in parts}
    except orjson.JSONDecodeError:
        return ""
    return f"k:{orjson.dumps(key, option=orjson.OPT_SORT_KEYS).decode()}"


def field_name(path: Path) -> str:
    """Return a path in the server's notation: `.spec.template.spec.containers[name="web"].resources`."""
    return "".join(map(_step_name, path))


APPLIED_METADATA = ("labels", "annotations", "ownerReferences", "finalizers")
"""The metadata that an applied object may set; other fields are set by the server, or name the object."""


def metadata_steps(metadata: Fields) -> dict[Path, Any]:
    """Return the path and the value of each label, annotation, finalizer and owner reference."""
    found: dict[Path, Any] = {}
    for name in APPLIED_METADATA:
        values = metadata.get(name) or ()
        for each in values:
            if isinstance(values, dict):
                step, value = f"f:{each}", values[each]
            elif isinstance(each, dict):
                step, value = f"k:{orjson.dumps({'uid': each['uid']}).decode()}", [each]
            else:
                step, value = f"v:{orjson.dumps(each).decode()}", [each]
            found["f:metadata", f"f:{name}", step] = value
    return found


def _step_name(step: str) -> str:
    if step.startswith("f:"):
        return f".{step[2:]}"
    named = parsed(step[2:])
    parts = named.items() if isinstance(named, dict) else [("", named)]
    return f"[{','.join(f'{name}={orjson.dumps(value).decode()}' for name, value in parts)}]"


def release(there: Any, owned: Fields, kept: Sequence[Fields]) -> None:
    """Remove the fields in `owned` from a map or list, unless a record in `kept` also has them."""
    for path, below in owned.items():
        step: Any = place_in(there, path) if isinstance(there, list) else None
        if isinstance(there, dict) and path.startswith("f:") and path[2:] in there:
            step = path[2:]
        if step is None:
            continue
        others = [each[path] for each in kept if path in each]
        parts = [each for each in below if each != "."]
        if parts:
            release(there[step], below, others)
        if not others and (not parts or not there[step]):
            del there[step]


def without_fields(wanted: Any, paths: Sequence[Path]) -> Any:
    """Return JSON without the fields at these paths; unchanged parts are shared."""
    for path in paths:
        wanted = _without_field(wanted, path)
    return wanted


def _without_field(there: Any, path: Path) -> Any:
    step, rest = path[0], path[1:]
    if isinstance(there, list) and (place := place_in(there, step, defaulted=True)) is not None:
        left = [_without_field(there[place], rest)] if rest else []
        return [*there[:place], *left, *there[place + 1 :]]
    name = step[2:]
    if not isinstance(there, dict) or not step.startswith("f:") or name not in there:
        return there
    if rest:
        return {**there, name: _without_field(there[name], rest)}
    return {other: value for other, value in there.items() if other != name}


KEYS = frozenset(
    (
        *("containerPort", "devicePath", "driver", "ip", "mountPath", "name"),
        *("port", "resourceID", "rule", "topologyKey", "type", "uid"),
    )
)
"""For each list of Kubernetes' own kinds that is merged by keys, one of its keys. For lists of custom kinds,
the server checks the keys at the creation, too."""


_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_longer_lists = re.compile(rb'\[(?=(%b(?:,%b)++\])|%b,|[^][{}"]*,)' % (_TEXT, _TEXT, _TEXT)).finditer
"""Finds lists of several plain values; for lists of strings, the group contains the items."""


def may_repeat_keys(encoded: bytes) -> bool:
    """Return whether a list in an object's compact JSON may contain the same key or value twice.

    Only the schema could decide for sure. The result is True whenever an apply would fail with `duplicate
    entries for key`, but also for two mounts of one volume.
    """
    # Every creation calls this, and few objects have long lists, so search for these without decoding. A list
    # inside a string costs at most a needless check.
    if encoded.find(b"},{") < 0 and encoded.find(b"],[") < 0:  # `in` is slow for bytes in bytes
        longer = [found[1] and orjson.loads(b"[" + found[1]) for found in _longer_lists(encoded)]
        if all(texts and len({*texts}) == len(texts) for texts in longer):
            return False
    return _has_repeats(orjson.loads(encoded))


def _has_repeats(there: Any) -> bool:
    if isinstance(there, list) and len(there) > 1 and _repeats_keys(there):
        return True
    below = there.values() if isinstance(there, dict) else there if isinstance(there, list) else ()
    return any(map(_has_repeats, below))


def _repeats_keys(items: list[Any]) -> bool:
    keys = list[Any]()
    for item in items:
        if isinstance(item, dict):
            keys += [(name, str(item[name])) for name in KEYS & item.keys()] or [()]
        else:
            keys.append(str(item))
    return len({*keys}) < len(keys)


# Repairs of applies that the server refuses because another client has added items to our lists. An apply
# merges lists by the keys of their items. After another client has changed a port from 80 to 8080, an apply
# adds 80 beside it, and the server refuses two ports with one name. No apply removes an item of another
# manager. So one patch has the effect of the apply, and removes others' items from the refused lists. A list
# that is owned as a whole, or that others have not extended, is not repaired: its refusal has another cause.

Names = tuple[str, ...]
"""The names of the fields on the path to a list: `("spec", "template", "spec", "containers", "ports")`."""

_index = re.compile(r"\[[^\]]*\]")


def refused_lists(details: Mapping[str, Any]) -> list[set[Names]]:
    """Return two sets: the lists whose items a refusal concerns, and these with all their parent lists.

    Returns no sets if the refusal concerns anything else as well.
    """
    causes = details.get("causes")
    lists, around = set[Names](), set[Names]()
    for each in causes if isinstance(causes, list) else ():
        field = str(each.get("field", "")) if isinstance(each, dict) else ""
        places = [found.start() for found in _index.finditer(field)]
        if not places:
            return []
        named = [tuple(_index.sub("", field[:place]).split(".")) for place in places]
        lists.add(named[-1])
        around.update(named)
    return [lists, around] if lists else []


class Repair:
    """A merge patch with the effect of an apply of `wanted`, which also removes others' items in `lists`.

    Items in `keeps` are not removed. `ours` has the fields that the apply would replace or remove, `others`
    the records of other managers.

    Attributes:
        lists: the lists in which it removes items of others.
        removed: the paths of the removed items of others.
        releases: whether it removes our own fields that are no longer wanted.
    """

    def __init__(
        self,
        live: Fields,
        wanted: Fields,
        ours: Fields,
        others: Sequence[tuple[str, Fields]],
        lists: Iterable[Names] = (),
        keeps: Collection[Path] = (),
    ) -> None:
        self.lists = set(lists)
        self._keeps = keeps
        self._others = others
        self.removed: list[Path] = []
        self.releases = False
        self._patch = merge_diff(live, self._after(live, wanted, ours, [record for _, record in others], ()))

    def patch_of(self, demanded: Fields) -> dict[str, Any]:
        """Return the merge patch, with the metadata `demanded` that the object must have."""
        return {**self._patch, "metadata": {**self._patch.get("metadata", {}), **demanded}}

    @property
    def conflicts(self) -> tuple[FieldConflict, ...]:
        """Return the removed items and their managers; empty if no other client causes the refusal."""
        return tuple(
            FieldConflict(manager, field_name(path))
            for path in self.removed
            for manager in [name for name, record in self._others if has_field(record, path)] or [""]
        )

    def _after(self, there: Any, wanted: Any, ours: Fields, others: Sequence[Fields], path: Path) -> Any:
        """Return the value at `path` after an apply of `wanted`; `ours`, `others`: the owned fields below."""
        if path and not _steps(ours, others):
            return wanted  # owned as a whole
        if isinstance(there, Mapping) and isinstance(wanted, Mapping):
            result: dict[str, Any] = {}
            for name, value in there.items():
                step = f"f:{name}"
                if name in wanted:
                    result[name] = self._below(value, wanted[name], step, ours, others, path)
                else:
                    result |= self._released({name: value}, step, ours, others)
            return result | {name: value for name, value in wanted.items() if name not in there}
        if isinstance(there, list) and isinstance(wanted, list):
            return self._list_after(there, wanted, ours, others, path)
        return wanted

    def _list_after(
        self, there: list[Any], wanted: list[Any], ours: Fields, others: Sequence[Fields], path: Path
    ) -> list[Any]:
        steps = {place: step for step in _steps(ours, others) if (place := place_in(there, step)) is not None}
        refused = tuple(step[2:] for step in path if step.startswith("f:")) in self.lists
        merged, kept = list(wanted), list[Any]()
        in_place, last = list[Any](), -1
        for place, item in enumerate(there):
            step = steps.get(place, "")
            number = place_in(wanted, step, defaulted=True)
            if number is not None:
                merged[number] = self._below(item, wanted[number], step, ours, others, path)
                in_place.append(merged[number])
                last = number if last == number - 1 else len(wanted)
            elif refused and step not in ours and (*path, step) not in self._keeps:
                self.removed.append((*path, step))
            else:
                left = self._released([item], step, ours, others)
                kept += left
                in_place += left
        # Items of others keep their places, unless our items have to move.
        return in_place if last == len(wanted) - 1 else [*merged, *kept]

    def _below(
        self, there: Any, wanted: Any, step: str, ours: Fields, others: Sequence[Fields], path: Path
    ) -> Any:
        [mine] = _below([ours], step) or [{}]
        return self._after(there, wanted, mine, _below(others, step), (*path, step))

    def _released(self, there: Any, step: str, ours: Fields, others: Sequence[Fields]) -> Any:
        """Return a map or list without those parts of its member `step` that only we own."""
        if step not in ours:
            return there
        left = copy.deepcopy(there)
        release(left, {step: ours[step]}, others)
        self.releases |= left != there
        return left


def _steps(ours: Fields, others: Sequence[Fields]) -> dict[str, None]:
    return {step: None for record in (ours, *others) for step in record if step != "."}


def _below(records: Sequence[Fields], step: str) -> list[Fields]:
    return [below for record in records if isinstance(below := record.get(step), dict)]
