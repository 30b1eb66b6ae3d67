"""Entries of `metadata.managedFields`: parsing, encoding, and merging of old ones."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from devcluster.patch.compare import applied_fields, compare
from devcluster.patch.fields import EMPTY, LEAF, MEMBER, Fields, decode, difference, ordered, union
from devcluster.patch.go_format import go_json
from devcluster.patch.shape import DEDUCED, Shape, Untypable, root_shape
from devcluster.patch.write import shape_errors
from devcluster.schema.node import Schema

MAX_UPDATERS: Final = 10
"""The maximum number of Update entries; if there are more, the oldest are merged."""
ANCIENT: Final = "ancient-changes"
"""The manager name of merged old entries."""


class Identity(NamedTuple):
    """Identity of an entry of managedFields; an applier has one entry for all API versions together."""

    manager: str
    operation: str
    api_version: str
    """The version; empty for the operation Apply."""
    subresource: str

    def text(self) -> str:
        """Return the text by which the real server sorts the entries."""
        facts = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "subresource": self.subresource,
        }
        return json.dumps({key: value for key, value in facts.items() if value}, separators=(",", ":"))


@dataclasses.dataclass(slots=True)
class Managed:
    """Entry of managedFields: a manager's fields in `api_version`, and its last change ("" if unknown)."""

    identity: Identity
    api_version: str
    fields: Fields
    time: str = ""
    in_order: bool = False
    """Whether the fields have the order that `encode` writes, apart from fields removed since."""


Entries = dict[Identity, Managed]

_SORTED_KEYS: Final = ("apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "subresource", "time")


def identify(manager: str, operation: str, api_version: str, subresource: str) -> Identity:
    """Return the identity of the entry that a request writes."""
    name = manager or "unknown"
    return Identity(name, operation, "" if operation == "Apply" else api_version, subresource)


def resets(given: Any) -> bool:
    """Return whether the managedFields from a client (`[]` or `[{}]`) remove all entries."""
    return isinstance(given, list) and (not given or given == [{}])


def parse(entries: Sequence[Any] | None, *, ours: bool = False) -> Entries:
    """Parse the managedFields of an object; `ours` skips all checks, for entries that `encode` wrote.

    Raises:
        ValueError: an entry is invalid; the message is the real server's.
    """
    found: Entries = {}
    if ours:
        for entry in entries or ():
            identity = _identity(entry)
            found[identity] = Managed(
                identity, entry["apiVersion"], entry["fieldsV1"], entry.get("time", ""), in_order=True
            )
        return found
    for index, entry in enumerate(entries or ()):
        if not isinstance(entry, Mapping):
            raise ValueError(f"managed fields entry {index} is not an object")  # noqa: TRY004 -- bad input
        operation = entry.get("operation", "")
        api_version = entry.get("apiVersion", "")
        if operation not in {"Apply", "Update"}:
            raise ValueError("operation must be `Apply` or `Update`")
        if not api_version:
            raise ValueError("apiVersion must not be empty")
        if (fields_type := entry.get("fieldsType", "")) != "FieldsV1":
            if not fields_type:
                raise ValueError(f"missing fieldsType in managed fields entry {index}")
            raise ValueError(f"invalid fieldsType {json.dumps(fields_type)} in managed fields entry {index}")
        identity = _identity(entry)
        fields = decode(entry.get("fieldsV1") or {})
        found[identity] = Managed(identity, api_version, fields, entry.get("time") or "")
    return found


def encode(entries: Collection[Managed], *, custom: bool) -> list[dict[str, Any]]:
    """Encode the entries, sorted; `custom` also sorts the keys of their fields as text."""
    written = []
    for entry in sorted(entries, key=_place) if len(entries) > 1 else entries:
        identity = entry.identity
        facts: dict[str, Any] = {
            "manager": identity.manager,
            "operation": identity.operation,
            "apiVersion": entry.api_version,
            "time": entry.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": entry.fields if entry.in_order else ordered(entry.fields, by_text=custom),
            "subresource": identity.subresource,
        }
        keys = _SORTED_KEYS if custom else facts
        written.append({key: facts[key] for key in keys if facts[key] or key == "fieldsV1"})
    return written


def squeezed(entries: Entries) -> Entries:
    """Merge the oldest Update entries of each version into one entry, if the object has too many."""
    updaters = [entry for entry in entries.values() if entry.identity.operation == "Update"]
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return entries
    updaters.sort(key=lambda entry: (entry.time, entry.identity.text()))
    kept = dict(entries)
    first: dict[str, Identity] = {}
    for entry in updaters:
        if excess <= 0:
            break
        version = entry.api_version
        if version not in first:
            first[version] = entry.identity
            continue
        bucket = Identity(ANCIENT, "Update", version, "")
        together = kept.get(bucket) or dataclasses.replace(kept.pop(first[version]), identity=bucket)
        kept.pop(entry.identity, None)
        kept[bucket] = Managed(bucket, version, union(entry.fields, together.fields), entry.time)
        excess -= 1
    return kept


def _identity(entry: Mapping[str, Any]) -> Identity:
    operation = entry["operation"]
    version = "" if operation == "Apply" else entry["apiVersion"]
    return Identity(entry.get("manager", ""), operation, version, entry.get("subresource", ""))


def _place(entry: Managed) -> tuple[str, str, str, str, str]:
    identity = entry.identity
    return (identity.operation, entry.time, identity.manager, entry.api_version, identity.subresource)


ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"

Object = dict[str, Any]


def owned(live: Object, schema: Schema, api_version: str) -> Fields:
    """Return the applied fields from kubectl's last-applied annotation whose values have not changed since.

    kubectl may take over the ownership of these fields.
    """
    try:
        config = orjson.loads((live["metadata"].get("annotations") or {}).get(ANNOTATION) or "null")
    except orjson.JSONDecodeError:
        return EMPTY
    if not isinstance(config, dict) or config.get("apiVersion") != api_version:
        return EMPTY
    if shape_errors(config, root_shape(schema)):
        return EMPTY
    try:
        fields = applied_fields(config, schema)
        comparison = compare(config, live, schema)
    except Untypable:
        return EMPTY
    return difference(difference(fields, comparison.changed), comparison.removed)


def refresh(obj: Object, config: Object) -> None:
    """Update kubectl's last-applied annotation of `obj` to `config`, if `obj` has this annotation."""
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    if not annotations.get(ANNOTATION):
        return
    applied = dict(config)
    applied["metadata"] = dict(config.get("metadata") or {})
    if applied["metadata"].get("annotations"):
        left = {key: value for key, value in applied["metadata"]["annotations"].items() if key != ANNOTATION}
        applied["metadata"].pop("annotations")
        if left:
            applied["metadata"]["annotations"] = left
    text = go_json(orjson.dumps(applied, option=orjson.OPT_SORT_KEYS).decode())
    metadata["annotations"] = {**annotations, ANNOTATION: text + "\n"}


def reconciled(fields: Fields, shape: Shape) -> Fields:
    """Return `fields` after a change of the schema: a list or map that is now atomic is owned as a whole."""
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
    """Return whether the node stands for a list or map that is now atomic."""
    listed = next((key for key in node if key != MEMBER), "f:")[0] in "kvi"
    if shape.is_map and not listed:
        return shape.atomic_map
    return shape.is_list and listed and shape.atomic_list
