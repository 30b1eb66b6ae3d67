"""The fields of an object that each write sends, and the writers of status and other subresources."""

from __future__ import annotations

import asyncio
import base64
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from typing import Any, Protocol, TypeVar

import msgspec
import orjson

from manager.api import ApiModel, GroupVersionKind, ObjectKey, Resource, is_crd
from manager.api.model import conditions_by_type, merged_by_type, without_defaults
from manager.api.resource import reference_to
from manager.client.child_label import ChildLabel, label_of
from manager.client.errors import name_nearest
from manager.client.kubernetes import object_of_model
from manager.client.reader import decode_at_once, decode_object
from manager.kube.decoding import MALFORMED, json_object, not_a
from manager.kube.errors import BadRequest, Conflict, Invalid, NotFound, ServerError, TransportError
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.telemetry.runs import current_record
from manager.util.loop import own_turn

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R", bound=Resource)


def remember(table: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """Set an entry in a table of at most `most` entries; the oldest entries are removed."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > most:
        table.popitem(last=False)


def record_spared(verb: str, kind: type[Resource], key: ObjectKey, subresource: str = "") -> None:
    """Add to the reconcile record that a write was not sent, because it would have had no effect."""
    if (run := current_record()) is not None:
        run.add_spared(verb, kind, key, subresource)


def merge_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the smallest merge patch that changes `before` into `after`; empty if they are equal.

    Objects are compared field by field; a removed field becomes null (which deletes it). Lists are replaced
    as a whole, because a merge patch cannot change their items.
    """
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, new in after.items():
        old = before.get(name, _ABSENT)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            if nested := merge_diff(old, new):
                patch[name] = nested
        elif old != new or type(old) is not type(new):
            # Python considers True == 1 and 1 == 1.0 equal; JSON readers do not.
            patch[name] = new
    return patch


_ABSENT = object()

Json = dict[str, Any]

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
# Apply requires YAML, and JSON is valid YAML.
APPLY_PATCH = "application/apply-patch+yaml"

DRY_RUN = {"dryRun": "All"}

SECRET = GroupVersionKind("", "v1", "Secret")
"""The only built-in kind with special treatment in writes."""


def sent_fields(obj: Resource) -> dict[str, Any]:
    """Return the object's JSON as the base of a write: the `stringData` of a Secret is in its `data`."""
    wire = obj.to_wire()
    return fold_string_data(wire) if obj.gvk == SECRET else wire


def fold_string_data(wire: dict[str, Any]) -> dict[str, Any]:
    """Move a Secret's `stringData` into its `data`, as the server would; change nothing else.

    The server does not remember the `stringData` of an apply, so it would not remove keys that a later apply
    lacks. If a value is no string, nothing is moved, and the server reports the error.
    """
    texts = wire.get("stringData")
    if isinstance(texts, dict) and all(isinstance(each, str) for each in texts.values()):
        del wire["stringData"]
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        wire["data"] = {**(wire.get("data") or {}), **encoded}
    return wire


def whole_object(obj: Resource) -> dict[str, Any]:
    """Return the object as a create or an update sends it.

    `managedFields`, which only objects from the server have, is omitted, because it may be outdated. Without
    the field, the server keeps its entries.
    """
    wire = sent_fields(obj)
    wire.get("metadata", {}).pop("managedFields", None)
    return wire


def applied_fields(obj: Resource, owner: Resource | None, child_label: ChildLabel | None) -> dict[str, Any]:
    """Return the fields to apply; fields of plain JSON are serialised later, by `encode_applied`."""
    meta = obj.metadata
    if meta.model_extra:
        _refuse_unknown(obj)
    references = [each.to_wire() for each in meta.owner_references]
    if owner is not None:
        references.append(reference_to(owner, meta))
    named = {
        "name": meta.name,
        "namespace": meta.namespace,
        "labels": {**meta.labels},
        "annotations": meta.annotations,
        "ownerReferences": references,
        "finalizers": meta.finalizers,
    }
    metadata: dict[str, Any] = {name: value for name, value in named.items() if value}
    if owner is not None and child_label is not None and child_label.is_set:
        # Set the label last, as `_keep_label` does: the order changes the digest of our create.
        metadata.setdefault("labels", {})[child_label.key] = label_of(owner.metadata.uid)
    plain = plain_fields(type(obj))
    if plain is None or obj.gvk == SECRET:
        wire = sent_fields(obj)
        wire.pop("status", None)
        if is_crd(type(obj)):  # the server has the same defaults: sending them would make us their owner
            wire = without_defaults(obj, wire)
        return {**wire, "apiVersion": obj.api_version, "kind": obj.kind, "metadata": metadata}
    wire = {"apiVersion": obj.api_version, "kind": obj.kind, "metadata": metadata}
    values = {name: getattr(obj, field) for field, name in plain.items()}
    wire |= {name: value for name, value in values.items() if value is not None}
    if obj.model_extra:
        wire |= obj.to_wire(only={*obj.model_extra} - {"status"})
    return wire


_BY_MODEL = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


def _refuse_unknown(obj: Resource) -> None:
    """Raise BadRequest for unknown metadata fields, because an apply would silently omit them."""
    if unknown := sorted({*(obj.metadata.model_extra or ())} - _MORE_METADATA):
        fields = ", ".join(f'unknown field "metadata.{name}"' for name in unknown)
        error = BadRequest(400, "BadRequest", f"{obj.kind} {obj.key}: {fields}")
        name_nearest(error, type(obj))
        raise error


_MORE_METADATA = {"deletionGracePeriodSeconds", "managedFields", "selfLink"}
"""The fields of the server's metadata that `ObjectMeta` lacks."""


def encode_applied(wanted: dict[str, Any], obj: Resource) -> bytes:
    """Convert models and other Python values in `wanted` to JSON values, and encode everything as JSON."""
    try:
        return orjson.dumps(wanted, option=_BY_MODEL)
    except TypeError:
        wanted |= obj.to_wire(only={*(plain_fields(type(obj)) or ())})
        return orjson.dumps(wanted)


@cache
def plain_fields(kind: type[Resource]) -> dict[str, str] | None:
    """Return the JSON names of a kind's own fields if all of them are maps of arbitrary values, else None.

    Such fields are equal in JSON and in code, and serialising them by the model costs as much as decoding the
    object. Returns None also if the kind has its own serializers.
    """
    decorators = kind.__pydantic_decorators__
    if decorators.field_serializers or decorators.model_serializers or decorators.computed_fields:
        return None
    found = {}
    for name, field in kind.model_fields.items():
        if name in _OF_ALL_KINDS:
            continue
        if field.annotation != dict[str, Any] or field.metadata or field.exclude or field.exclude_if:
            return None
        found[name] = field.serialization_alias or name
    return found


_OF_ALL_KINDS = {"api_version", "kind", "metadata", "status"}


class KubernetesModel(Protocol):
    """A model of kubernetes-asyncio, such as `V1Deployment`, as a type for type checkers."""

    def to_dict(self, serialize: bool = False) -> dict[str, Any]:
        """Return the model's fields by their Python names."""


def resource_of(obj: Resource | KubernetesModel, kinds: Iterable[type[Resource]] = ()) -> Resource:
    """Convert a kubernetes-asyncio model to the matching one of `kinds`; return a `Resource` unchanged.

    Raises TypeError for anything else; see `manager_kubernetes_asyncio.models.to_resource`.
    """
    if isinstance(obj, Resource):
        return obj
    if not hasattr(obj, "openapi_types"):
        given = type(obj).__name__
        raise TypeError(f"{given} is neither an object of manager.api nor a kubernetes-asyncio model")
    return object_of_model(obj, kinds)


class SubresourceClient:
    """A client of a subresource such as `scale` or `eviction`, with plain JSON values.

    The answer to a write is another object (such as a Scale), so the caches see the effect only when the
    watch reports it.
    """

    def __init__(self, transport: Transport, mapper: RestMapper, name: str, *, field_manager: str) -> None:
        self._transport = transport
        self._mapper = mapper
        self._name = name
        self._field_manager = field_manager

    async def get(self, obj: Resource) -> Json:
        """Read the subresource from the server."""
        return await self._request("GET", obj)

    async def create(self, obj: Resource, body: Mapping[str, Any], *, dry_run: bool = False) -> Json:
        """POST to the subresource, such as an Eviction of a pod or a TokenRequest of a service account."""
        return await self._request("POST", obj, body, dry_run=dry_run)

    async def patch(self, obj: Resource, changes: Mapping[str, Any], *, dry_run: bool = False) -> Json:
        """Merge `changes` into the subresource, such as `{"spec": {"replicas": 3}}` for a scale."""
        return await self._request("PATCH", obj, changes, content_type=MERGE_PATCH, dry_run=dry_run)

    async def update(self, obj: Resource, body: Mapping[str, Any], *, dry_run: bool = False) -> Json:
        """Replace the subresource."""
        return await self._request("PUT", obj, body, dry_run=dry_run)

    async def _request(
        self, method: str, obj: Resource, body: Any = None, *, content_type: str = JSON, dry_run: bool = False
    ) -> Json:
        mapping = await self._mapper.resolve(obj.gvk)
        path = mapping.path(obj.key.namespace, obj.key.name, self._name)
        query = {"fieldManager": self._field_manager, **(DRY_RUN if dry_run else {})}
        sent: Any = {} if body is None else {"query": query, "body": orjson.dumps(body)}
        try:
            raw = await self._transport.request(method, path, content_type=content_type, **sent)
        except NotFound as error:
            raise await self._mapper.explain_not_found(error, obj.gvk, self._name) from None
        return json_object(raw, f"a {self._name}")


CONDITIONS = "conditions"
# The number of objects whose last write may have failed. Objects that are never written again are most
# probably gone.
_MOST_IN_DOUBT = 10_000
# The number of attempts of a write while others keep writing conditions; then the back-off continues.
ATTEMPTS = 5


class _Part(msgspec.Struct):
    status: msgspec.Raw = msgspec.Raw()


_decode_part = msgspec.json.Decoder(_Part).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode

Part = tuple[str, str | None]
"""The name of a status field and None, or "conditions" and a condition's type."""


class StatusClient:
    """A writer of the status subresource."""

    def __init__(self, send: Callable[..., Awaitable[tuple[bytes, Any]]]) -> None:
        """Create a writer. `send` is the client's method, which caches each answer."""
        self._send = send
        self._in_doubt = OrderedDict[tuple[str, ObjectKey], set[Part]]()
        """The parts of each object's status whose last write may have failed; the cache may have older
        values."""

    async def patch(self, obj: R, *, dry_run: bool = False) -> R:
        """Write the status changes since the read; return the object as stored.

        One request usually suffices; without differences, none is sent. Only the fields and conditions that
        differ are written, so concurrent changes by others are kept. A change of the rest of the object never
        causes a refusal. After a concurrent change of conditions, they are read and written again. Raises
        Conflict if that happens repeatedly, or if another object with the same name has replaced the object.
        If the object was not read from the server, the whole status is written.
        """
        raw = await self._write(obj, _status_of(obj), dry_run=dry_run)
        return obj if raw is None else await decode_object(raw, type(obj), obj.key)

    async def report(self, obj: Resource, *, cached: Callable[[], bytes | None]) -> bool:
        """Write the status at the end of a reconcile like `patch`; the answer updates the cache, not `obj`.

        `cached` is called after the write. It returns the JSON of the cached object. None skips the check,
        for example if the cache lacks the object, or still has the version that was read.

        Returns whether fields that this reconcile has not changed differ between the cached status and the
        status that was read. An earlier process may have written them, and only another reconcile can
        correct them.
        """
        after = _status_of(obj)
        await self._write(obj, after)
        raw, origin = cached(), obj.origin
        if raw is None or origin is None:
            return False
        status = _status_in(raw, obj) or {}
        if status == after:
            return False  # the usual case
        before = _status_in(origin, obj) or {}
        return not _differing(before, status) <= _differing(before, after)

    def is_changed(self, obj: Resource) -> bool:
        """Return whether the object's status differs from the status that was read."""
        after = _status_of(obj)
        if obj.origin is None or after == (_status_in(obj.origin, obj) or {}):
            return False
        # The model may spell the status differently from the server.
        return after != _status_of(decode_at_once(obj.origin, type(obj), obj.key))

    async def update(self, obj: R, *, dry_run: bool = False) -> R:
        """Replace the whole status; raises Conflict if the object has changed since the read."""
        booked: Any = {"subresource": "status", "dry_run": dry_run}
        raw, _ = await self._send("PUT", type(obj), obj.key, whole_object(obj), **booked)
        return await decode_object(raw, type(obj), obj.key)

    async def _write(self, obj: Resource, after: Json, *, dry_run: bool = False) -> bytes | None:
        """Write the changes that lead to `after`; return the stored object, or None without a change."""
        raw, key = obj.origin, obj.key
        if raw is None:
            whole = [{"op": "add", "path": "/status", "value": after}]
            return await self._send_patch(obj, key, whole, dry_run)
        await own_turn(len(raw))
        cached: Json | None = _status_in(raw, obj)
        before, live, name = cached, cached, (obj.kind, key)
        doubted = (self._in_doubt.get(name) if dry_run else self._in_doubt.pop(name, None)) or set()
        try:
            if doubted:
                # The wanted status may equal the one before the uncertain write, and differ from the stored
                # one.
                live, raw = await self._look(obj, key, dry_run)
                before = _in_place(before or {}, live or {}, doubted)
            changes = _changes(before, after, live, raw)
            if not changes:
                record_spared("patch", type(obj), key, "status")
                return None
            for _ in range(ATTEMPTS):
                try:
                    return await self._send_patch(obj, key, changes, dry_run)
                except Invalid:
                    # A JSON Patch `test` has failed (the server does not tell), or the status is not valid.
                    live, raw = await self._look(obj, key, dry_run)
                    before = _with_defaults(before, live, obj)
                    tried, changes = changes, _changes(before, after, live, raw)
                    if orjson.dumps(changes) == orjson.dumps(tried):
                        raise
                    if not changes:
                        return raw  # another client has written the same status
        except (TransportError, ServerError, asyncio.CancelledError):
            remember(self._in_doubt, name, doubted | _differing(cached or {}, after), _MOST_IN_DOUBT)
            raise
        raise Conflict(409, "Conflict", f"the status of {obj.kind} {key} keeps being changed")

    async def _send_patch(self, obj: Resource, key: ObjectKey, patch: list[Json], dry_run: bool) -> bytes:
        if obj.metadata.uid:
            # The server ignores a uid in the body of a status write. Without this test, the status of a
            # deleted object would be written to a new object with its name.
            patch = [{"op": "test", "path": "/metadata/uid", "value": obj.metadata.uid}, *patch]
        booked: Any = {"content_type": JSON_PATCH, "subresource": "status", "dry_run": dry_run}
        return (await self._send("PATCH", type(obj), key, patch, **booked))[0]

    async def _look(self, obj: Resource, key: ObjectKey, dry_run: bool) -> tuple[Json | None, bytes]:
        """Return the current status, and the JSON of its object.

        A patch without changes is sent: a client that may write a status may lack the right to get.
        Raises Conflict if another object with the same name has replaced the object.
        """
        try:
            raw = await self._send_patch(obj, key, [], dry_run)
        except Invalid as error:
            if error.details.get("causes"):  # errors of its fields; a failed test has none
                raise
            message = f"{obj.kind} {key} was replaced by another object of its name"
            raise Conflict(409, "Conflict", message) from error
        status = _status_in(raw, obj)
        if not isinstance(status, dict | None):
            raise not_a(f"a {obj.kind} object")
        return status, raw


def _status_of(obj: Resource) -> Json:
    status = getattr(obj, "status", None)
    if isinstance(status, ApiModel):
        return status.to_wire()
    found: Json = obj.to_wire(only={"status"}).get("status", {})
    return found


def _status_in(raw: bytes, obj: Resource) -> Any:
    """Decode only the status in an object's JSON, None if there is none; raises ProtocolError."""
    try:
        part = _decode_part(raw).status
        return orjson.loads(memoryview(part)) if part else None
    except MALFORMED:
        return json_object(raw, f"a {obj.kind} object").get("status")


def _changes(before: Json | None, after: Json, live: Json | None, raw: bytes) -> list[Json]:
    """Return the JSON patch that applies the changes from `before` to `after` to the status `live`.

    `raw` is the object with the status `live`.
    """
    known = before or {}
    if live is before and after == known:
        return []  # the usual case
    wanted = dict(live or {})
    changed = [name for name in {**known, **after} if after.get(name) != known.get(name)]
    for name in changed:
        new = after.get(name)
        if name == CONDITIONS and live is not before:
            merged = merged_by_type(known.get(name) or [], new or [], wanted.get(name) or [])
            new = (new or []) if merged is None else merged
        if name in after or (name == CONDITIONS and new):
            wanted[name] = new
        else:
            wanted.pop(name, None)
    if wanted == (live or {}):
        return []
    if live is None:
        # The server's JSON Patch library treats a missing value as null.
        return [
            {"op": "test", "path": "/status", "value": None},
            {"op": "add", "path": "/status", "value": wanted},
        ]
    patch: list[Json] = []
    for name in changed:
        if wanted.get(name) == live.get(name) and (name in wanted) is (name in live):
            continue
        path = "/status/" + name.replace("~", "~0").replace("/", "~1")
        if name == CONDITIONS:
            # In the server's spelling: it compares the bytes of strings, and escapes "<" in its own way.
            held = (_decode_fields(_decode_part(raw).status) or {}).get(name)
            there = None if held is None else orjson.Fragment(bytes(held))
            patch.append({"op": "test", "path": path, "value": there})
        change = {"op": "add", "path": path, "value": wanted.get(name)}
        patch.append(change if name in wanted else {"op": "remove", "path": path})
    return patch


def _parts(status: Json) -> dict[Part, Any]:
    """Return the fields of a status; each condition is a separate part if the types are unique."""
    found: dict[Part, Any] = {(name, None): value for name, value in status.items()}
    if conditions := conditions_by_type(status.get(CONDITIONS)):
        del found[CONDITIONS, None]
        found |= {(CONDITIONS, kind): each for kind, each in conditions.items()}
    return found


def _differing(before: Json, after: Json) -> set[Part]:
    old, new = _parts(before), _parts(after)
    return {part for part in {**old, **new} if old.get(part) != new.get(part)}


def _in_place(before: Json, live: Json, doubted: set[Part]) -> Json:
    """Return `before`, but with the fields and conditions named in `doubted` as they are in `live`."""
    there = _parts(live)
    known = {part: value for part, value in _parts(before).items() if part not in doubted or part in there}
    known |= {part: there[part] for part in doubted if part in there}
    found: Json = {name: value for (name, kind), value in known.items() if kind is None}
    if conditions := [value for (_, kind), value in known.items() if kind is not None]:
        found[CONDITIONS] = conditions
    return found


def _with_defaults(before: Json | None, live: Json | None, obj: Resource) -> Json | None:
    """Return `before` with the model's defaults for the fields that another client has set since.

    Otherwise a default that only the model has set would overwrite the other client's value.
    """
    known = before or {}
    since = [name for name in live or {} if name not in known]
    if not since or obj.origin is None:
        return before
    read = _status_of(decode_at_once(obj.origin, type(obj), obj.key))
    return {**known, **{name: read[name] for name in since if name in read}}
