"""Records of objects, their decoding from the server's bytes, and events about their changes."""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar
from weakref import ref

import msgspec

from manager.api import GroupVersionKind, ObjectKey, Resource
from manager.api.confidential import LAST_APPLIED
from manager.kube.decoding import MALFORMED, not_a, shallow_at_once
from manager.kube.errors import ProtocolError

R = TypeVar("R", bound=Resource)


class Owner(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """An owner reference."""

    uid: str
    kind: str = ""
    name: str = ""
    api_version: str = ""
    controller: bool = False
    block_owner_deletion: bool | None = None


class Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of an object's metadata that are needed for keys, owners, labels and predicates.

    Metadata is decoded without the rest of the object, and is not cached: the cache keeps the object's bytes.
    """

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[Owner, ...] = ()

    @property
    def controller(self) -> Owner | None:
        """Return the owner reference of the object's controller, or None."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class _Metadata(msgspec.Struct):
    metadata: Meta


_metadata_decoder = msgspec.json.Decoder(_Metadata)


def meta_in(raw: bytes) -> Meta:
    """Decode the metadata in an object's JSON."""
    return _metadata_decoder.decode(raw).metadata


# Records are invisible to the garbage collector: they have no references that could close a cycle, and
# scanning hundreds of thousands of them takes time.
class Record(msgspec.Struct, gc=False, eq=False, repr_omit_defaults=True):
    """An object's JSON and the few facts that every event needs.

    The cache and all readers share records: treat them as immutable. `version` is the resourceVersion as a
    number, which orders all states of all objects of a kind. `raw` has no `managedFields`; `managed` is the
    JSON list of our field managers' entries, or empty if none is kept.
    """

    key: ObjectKey
    raw: bytes
    uid: str
    version: int
    generation: int = 0
    deleting: bool = False
    managed: bytes = b""

    @property
    def is_cut(self) -> bool:
        """Return whether the record has only the object's metadata (see `RecordDecoder`)."""
        return self.raw.startswith(_PARTIAL_BEGINS)

    def meta(self) -> Meta:
        """Decode the metadata; each call takes a few microseconds and creates a new object."""
        return _metadata_decoder.decode(self.raw).metadata

    def decode(self, model: type[R]) -> R:
        """Decode the whole object into a new one for the caller.

        Raises pydantic.ValidationError if the object does not fit the model.
        """
        return model.decode(self.raw)


_MANAGED_FIELDS = b'"managedFields"'
_MANAGER = b'{"manager":"'
"""The beginning of an entry in `managedFields`, as API servers write it."""

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_entries = msgspec.json.Decoder(list[msgspec.Raw]).decode

_PARTIAL_BEGINS = b'{"kind":"PartialObjectMetadata",'
PARTIAL = _PARTIAL_BEGINS + b'"apiVersion":"meta.k8s.io/v1","metadata":%b}'
_WIRE_NAMES = {name: name for name in ("annotations", "labels", "finalizers")} | {
    "owner_references": "ownerReferences"
}
PARTIAL_KIND = "PartialObjectMetadata"

# The size limit, in bytes, of annotations in metadata caches; larger ones are content, not metadata.
ANNOTATION = 4096
# The number of labels, annotations, finalizers or owner references that metadata caches keep. A
# client that may write an object can add a hundred thousand of them, which slows down every reader.
MOST_KEPT = 1000
CUT = "cut"
"""The key, beside the kept metadata, that names the shortened lists, but no shortened maps."""


class _ArrivingMeta(Meta, frozen=True, gc=False, rename="camel"):
    """Metadata that still has all of its managedFields."""

    managed_fields: msgspec.Raw = msgspec.Raw()


class _Arriving(msgspec.Struct, gc=False):
    """An object with only its metadata decoded; items of a list have no kind."""

    metadata: _ArrivingMeta
    kind: str = ""


_decode = msgspec.json.Decoder(_Arriving).decode


class Arrival(msgspec.Struct, gc=False):
    """An object with only its identity decoded, which shows whether the cache has this version already."""

    raw: bytes | msgspec.Raw
    key: ObjectKey
    uid: str
    version: int
    meta: _ArrivingMeta
    kind: str
    """The object's own `kind`; empty for items of a list."""


class RecordDecoder:
    """A decoder that creates records of one kind.

    `managedFields` can be half of an object. The decoder keeps only our field managers' entries, apart from
    the object, because only an apply reads them.

    With `metadata_only`, it keeps only the metadata, and with `parts` the metadata and these parts. It then
    also drops managedFields and large annotations: kubectl's copy of the applied object, and every annotation
    of more than 4 KB. It keeps at most 1,000 items each of labels, annotations, finalizers and owner
    references; the controller's reference is always kept.

    With `owners` (groups and kinds), it also reduces objects without an owner of these kinds. An object that
    our field managers have written stays whole.
    """

    def __init__(
        self,
        gvk: GroupVersionKind,
        *,
        field_manager: str | FieldManagers,
        metadata_only: bool = False,
        owners: set[tuple[str, str]] | None = None,
        parts: Parts | None = None,
    ) -> None:
        self.owners = owners
        self._kind = gvk.kind
        self._what = f"a {gvk.kind} object"
        self._metadata_only = metadata_only
        managers = FieldManagers(field_manager) if isinstance(field_manager, str) else field_manager
        # An apply, which needs managedFields, always sees its whole object.
        self._managers = None if metadata_only or parts else managers
        self._parts = parts

    def __call__(self, raw: bytes | msgspec.Raw) -> tuple[Record, Meta]:
        """Return the record of an object, and the object's metadata, decoded for the caller.

        Raises ProtocolError if the JSON is not an object of this kind.
        """
        return self.take(self.look(raw))

    def look(self, raw: bytes | msgspec.Raw) -> Arrival:
        """Decode only an object's identity and version; raise ProtocolError if one of them is missing."""
        try:
            try:
                arriving = _decode(raw)
            except RecursionError:
                raw = shallow_at_once(bytes(raw))
                arriving = _decode(raw)
            meta = arriving.metadata
            # Objects share the string of their namespace, which saves more memory than the look-up costs.
            key = ObjectKey(sys.intern(meta.namespace), meta.name)
            return Arrival(raw, key, meta.uid, int(meta.resource_version), meta, arriving.kind)
        except MALFORMED as error:
            raise not_a(self._what, error, raw) from None

    def take(self, arrival: Arrival) -> tuple[Record, Meta]:
        """Return the record and metadata of an `Arrival`; raises the same errors as `__call__`."""
        raw, kind, arriving = arrival.raw, arrival.kind, arrival.meta
        meta: Meta = arriving
        managed = bytes(arriving.managed_fields)
        try:
            own = self._managers.own_entries(managed) if managed and self._managers is not None else b""
            is_foreign = self.owners is not None and not own and _is_foreign(meta, self.owners)
            only_metadata = self._metadata_only or is_foreign
            if kind == self._kind or not kind:
                kept = PARTIAL % bytes(_decode_object(raw)["metadata"]) if only_metadata else bytes(raw)
            elif only_metadata and kind == PARTIAL_KIND:
                kept = bytes(raw)
            else:
                raise ProtocolError(f"not {self._what}: it is of another kind")
            kept = shallow_at_once(_without_managed_fields(kept, managed))
            if self._parts is not None and not only_metadata:
                kept = self._parts.of(kept)
            if (only_metadata or self._parts) and (less := _limited(meta)):
                kept = _with_less(kept, less)
                meta = msgspec.structs.replace(meta, **less)
        except MALFORMED as error:
            raise not_a(self._what, error, raw) from None
        deleting, own = meta.deletion_timestamp is not None, own and shallow_at_once(own)
        return Record(arrival.key, kept, arrival.uid, arrival.version, meta.generation, deleting, own), meta


def _is_foreign(meta: Meta, owners: set[tuple[str, str]]) -> bool:
    kinds = ((owner.api_version.rpartition("/")[0], owner.kind) for owner in meta.owner_references)
    return owners.isdisjoint(kinds)


def metadata_of(raw: bytes, gvk: GroupVersionKind) -> bytes:
    """Return an object's JSON reduced to its metadata, as a metadata cache has it; raises ProtocolError."""
    return RecordDecoder(gvk, field_manager="", metadata_only=True)(raw)[0].raw


def _limited(meta: Meta) -> dict[str, Any]:
    """Return the metadata fields that exceed the limits, each with the items to keep."""
    less: dict[str, Any] = {}
    content = {
        name
        for name, value in meta.annotations.items()
        # For nearly all objects, the number of characters shows that no field is too long.
        if name == LAST_APPLIED or (len(value) > ANNOTATION // 4 and len(value.encode()) > ANNOTATION)
    }
    if content or len(meta.annotations) > MOST_KEPT:
        kept = (each for each in meta.annotations.items() if each[0] not in content)
        less["annotations"] = dict(islice(kept, MOST_KEPT))
    if len(meta.labels) > MOST_KEPT:
        less["labels"] = dict(islice(meta.labels.items(), MOST_KEPT))
    if len(meta.finalizers) > MOST_KEPT:
        less["finalizers"] = meta.finalizers[:MOST_KEPT]
    if len(meta.owner_references) > MOST_KEPT:
        first, rest = meta.owner_references[: MOST_KEPT - 1], meta.owner_references[MOST_KEPT - 1 :]
        less["owner_references"] = (*first, next((each for each in rest if each.controller), rest[0]))
    return less


def _with_less(raw: bytes, less: Mapping[str, Any]) -> bytes:
    """Replace metadata fields by the shorter values in `less`; a new JSON field names the shortened lists."""
    values = {_WIRE_NAMES[name]: msgspec.json.encode(value) if value else b"" for name, value in less.items()}
    lists = sorted(_WIRE_NAMES[name] for name, value in less.items() if isinstance(value, tuple))
    raw = _rebuild(raw, values)
    return b'%b,"%b":%b}' % (raw[:-1], CUT.encode(), msgspec.json.encode(lists)) if lists else raw


class FieldManagers:
    """The field managers whose entries in `managedFields` the cache keeps.

    They are all managers whose names begin with `own`, and the added ones, also with `+` and a digest.
    """

    def __init__(self, own: str) -> None:
        self._own = own
        self._names = {_encoded(own)}
        self.add(())

    def add(self, names: Iterable[str]) -> None:
        """Keep the entries of these managers, too, in all objects that are decoded later."""
        self._names |= {_encoded(name) + end for name in names if name != self._own for end in (b'"', b"+")}
        self._beginnings = tuple(_MANAGER + each for each in self._names)
        # This text occurs only at the start of an entry, because quotes in strings are escaped.
        any_of = b"|".join(map(re.escape, sorted(self._names)))
        self._find = re.compile(rb'"manager"\s*:\s*"(?:%b)' % any_of).search

    def own_entries(self, value: bytes) -> bytes:
        """Return the JSON list of these managers' entries in `managedFields`, empty if there are none."""
        if self._find(value) is None:
            return b""
        own = [
            entry
            for entry in map(bytes, _decode_entries(value))
            if (entry.startswith(self._beginnings) if entry.startswith(_MANAGER) else self._find(entry))
        ]
        return b"[%b]" % b",".join(own) if own else b""


def _encoded(name: str) -> bytes:
    return msgspec.json.encode(name)[1:-1]


def _without_managed_fields(raw: bytes, value: bytes) -> bytes:
    """Remove `metadata.managedFields` from an object's JSON; `value` is the field's JSON, or empty."""
    if not value:
        return raw
    start = raw.find(_MANAGED_FIELDS)
    colon = start + len(_MANAGED_FIELDS)
    if start < 0 or raw.find(_MANAGED_FIELDS, colon) >= 0 or not raw.startswith(b":" + value, colon):
        # Another field of the object has the same name, or the JSON is formatted differently.
        return _rebuild(raw, {"managedFields": b""})
    before, after = raw[:start].rstrip(), raw[colon + 1 + len(value) :].lstrip()
    return before[:-1] + after if before.endswith(b",") else before + after.removeprefix(b",")


def _rebuild(raw: bytes, values: Mapping[str, bytes]) -> bytes:
    """Replace metadata fields in an object's JSON; an empty value removes the field."""
    members = _decode_object(raw)
    metadata = _decode_object(members["metadata"])
    metadata |= {name: msgspec.Raw(value) for name, value in values.items()}
    members["metadata"] = msgspec.Raw(_join({name: value for name, value in metadata.items() if value}))
    return _join(members)


def _join(members: Mapping[str, bytes | msgspec.Raw]) -> bytes:
    # Join the parts instead of encoding the whole: an encoder's buffer is larger than its content.
    return b"{%b}" % b",".join(
        b"%b:%b" % (msgspec.json.encode(name), value) for name, value in members.items()
    )


# A name, in which a backslash escapes a dot, and whether all items of a list are meant.
_STEP = re.compile(r"(?P<name>(?:[^.\[\]\\]|\\.)+)(?P<each>\[\*\])?(?:\.(?=.)|$)")

_Tree: TypeAlias = dict[str, "_Tree"]


def steps_on(path: str) -> tuple[tuple[str, bool], ...]:
    """Parse a path into names, each with a flag for "every item of the list" (see `index_by`).

    Raises ValueError for a malformed path.
    """
    steps: list[tuple[str, bool]] = []
    position = 0
    while position < len(path) or not steps:
        match = _STEP.match(path, position)
        if match is None:
            raise ValueError(f"not a path: {path!r}, at {path[position:]!r}")
        steps.append((re.sub(r"\\(.)", r"\1", match["name"]), match["each"] is not None))
        position = match.end()
    return tuple(steps)


class Parts:
    """The kept parts of an object: its metadata, and the values at some paths, such as `status.phase`.

    Raises ValueError for a malformed path.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        whole: _Tree = {}
        self._tree: _Tree = {"apiVersion": whole, "kind": whole, "metadata": whole}
        # Shorter paths first: a part that is kept as a whole needs no parts of its own.
        for steps in sorted(map(steps_on, paths), key=len):
            at = self._tree
            for name, _ in steps[:-1]:
                if name in at and not at[name]:
                    break
                at = at.setdefault(name, {})
            else:
                at.setdefault(steps[-1][0], {})

    def of(self, raw: bytes) -> bytes:
        """Return an object's JSON without the other parts. A value of an unexpected type is kept."""
        return _prune(raw.strip(), self._tree)


def _prune(raw: bytes, tree: _Tree) -> bytes:
    """Keep the members of an object, or of each object in a list, that `tree` names."""
    if raw[:1] == b"[":
        return b"[%b]" % b",".join([_prune(bytes(each), tree) for each in _decode_entries(raw)])
    if raw[:1] != b"{":
        return raw
    members = _decode_object(raw)
    kept = {name: below for name, below in tree.items() if name in members}
    return _join({n: _prune(bytes(members[n]), below) if below else members[n] for n, below in kept.items()})


class Change(NamedTuple):
    """A change of the object `uid` from one resourceVersion to another; `before` is 0 for a new object."""

    uid: str
    before: int
    after: int


class EventType(enum.Enum):
    """The types of events, with their names in a watch."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class CacheEvent:
    """A change of the cache, published once, after the cache contains it.

    Attributes:
        old: the record before; None for ADDED.
        new: the record after; None for DELETED.
        record: the current state of the object, or its last state if it is gone.
        key: the object's name and namespace.
        type: ADDED, MODIFIED or DELETED.
        initial: whether the object existed before the subscription: the first list had it, or it is replayed
            to a late subscriber.
        handed_over: whether the object still exists, but no longer passes the filter (see `ObjectFilter`).
        received: the event loop's time at which the change reached this process.
        reconciling: whether the controller that gets the event is reconciling the object, so that the change
            may be its own. The source of the controller's own kind sets it.
    """

    __slots__ = (
        *("old", "new", "record", "key", "type", "initial", "handed_over", "received", "reconciling"),
        *("_meta", "_old_meta"),
    )

    def __init__(
        self,
        old: Record | None,
        new: Record | None,
        *,
        meta: Meta | None = None,
        initial: bool = False,
        handed_over: bool = False,
    ) -> None:
        record = new or old
        assert record is not None
        self.old = old
        self.new = new
        self.record = record
        self.key = record.key
        self.type = EventType.ADDED if old is None else EventType.MODIFIED if new else EventType.DELETED
        self.initial = initial
        self.handed_over = handed_over
        self.received = 0.0
        self.reconciling = False
        self._meta = meta
        self._old_meta: Meta | None = None

    @property
    def change(self) -> Change | None:
        """Return the change as UID and versions; None if the object is gone."""
        new, old = self.new, self.old
        return None if new is None else Change(new.uid, 0 if old is None else old.version, new.version)

    @property
    def meta(self) -> Meta:
        """Return the metadata of `record`."""
        if self._meta is None:
            self._meta = self.record.meta()
        return self._meta

    @property
    def old_meta(self) -> Meta | None:
        """Return the metadata of `old`, decoded at the first use; None for ADDED."""
        if self.new is None:
            return self.meta
        if self._old_meta is None and self.old is not None:
            self._old_meta = self.old.meta()
        return self._old_meta

    @property
    def is_cut(self) -> bool:
        """Return whether the event has only metadata of the object, before or after the change."""
        return any(each is not None and each.is_cut for each in (self.old, self.new))

    def __repr__(self) -> str:
        return f"<{self.type.value} {self.key} {self.record.version}{' initial' if self.initial else ''}>"


# A weak reference: a task that outlives its reconcile would otherwise add to the set for ever.
_current: ContextVar[ref[set[Change]] | None] = ContextVar("own_writes", default=None)


def own_writes_from_here() -> set[Change]:
    """Return a set that collects the later writes of the calling task, and of tasks that it starts.

    Only writes that surely include no change by another client are added: creates, writes that required a
    version, and applies that changed only the applied fields outside of lists. Collecting ends when the
    caller drops the set.
    """
    changes: set[Change] = set()
    _current.set(ref(changes))
    return changes


def note_own_write(change: Change) -> None:
    """Add a write to the set of `own_writes_from_here`, if the calling task has one."""
    current = _current.get()
    changes = None if current is None else current()
    if changes is not None:
        changes.add(change)
