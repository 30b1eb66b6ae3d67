"""Handler of gets and lists: selectors, pages, and responses."""

from __future__ import annotations

import asyncio
import base64
import binascii
import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson

from devcluster.api import conversion, tables
from devcluster.api.interfaces import Call
from devcluster.api.negotiation import Representation, encode
from devcluster.api.options import ListOptions, boolean_of
from devcluster.api.sharding import ShardSelector
from devcluster.api.syntax import describe
from devcluster.clock import Clock
from devcluster.errors import StatusError, bad_request, expired, not_found, timed_out
from devcluster.http_call import ApiResponse
from devcluster.kinds.resource import Resource
from devcluster.storage.records import Expired, Stored
from devcluster.storage.selectors import FieldSelector, LabelSelector, SelectorError
from devcluster.storage.store import Store

Object = dict[str, Any]

_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """Label, field and shard selectors of a request, checked against the kind's selectable fields."""

    resource: Resource
    labels: LabelSelector | None = None
    fields: FieldSelector | None = None
    shards: ShardSelector | None = None
    decodes: bool = False
    """Whether `matches` needs the decoded object."""

    @classmethod
    def of(cls, resource: Resource, options: ListOptions, *, name: str = "") -> Selection:
        """Build the selection from the options, and from the `name` in a path that names one object.

        Raises:
            StatusError: a selector is invalid, or names a field that does not support selectors.
        """
        try:
            labels = LabelSelector.parse(options.label_selector) if options.label_selector else None
            fields = FieldSelector.parse(options.field_selector) if options.field_selector else None
        except SelectorError as error:
            raise bad_request(str(error)) from None
        if name:
            if fields is not None and not fields.empty and fields.value_of(_NAME) != name:
                raise bad_request("fieldSelector metadata.name doesn't match requested name")
            fields = FieldSelector([(_NAME, name, True)])
        decodes = False
        for field in fields.fields if fields is not None else ():
            if field in {_NAME, _NAMESPACE}:
                continue
            if field not in selectable(resource):
                if resource.custom or selectable(resource):
                    raise bad_request(f"field label not supported: {field}")
                only = 'only "metadata.name", "metadata.namespace"'
                raise bad_request(f'"{field}" is not a known field selector: {only}')
            decodes = True
        return cls(
            resource,
            None if labels is None or labels.empty else labels,
            None if fields is None or fields.empty else fields,
            ShardSelector.parse(options.shard_selector) if options.shard_selector else None,
            decodes,
        )

    @property
    def everything(self) -> bool:
        """Whether the selection includes all objects."""
        return self.whole and self.shards is None

    @property
    def whole(self) -> bool:
        """Whether only a shard selector limits the selection."""
        return self.labels is None and self.fields is None

    @property
    def name(self) -> str | None:
        """The single name that the field selector asks for, or None."""
        return None if self.fields is None else self.fields.value_of(_NAME)

    @property
    def namespace(self) -> str:
        """The namespace that the field selector asks for, or ""."""
        return (self.fields.value_of(_NAMESPACE) or "") if self.fields is not None else ""

    @property
    def converts(self) -> bool:
        """Whether objects must be converted first, because versions may differ in the selected fields."""
        resource = self.resource
        if not resource.custom:
            return False
        return self.decodes or (self.labels is not None and resource.convert is not None)

    async def ready(self, items: Iterable[Stored | None]) -> None:
        """Convert these objects, if necessary, so that `matches` can check them.

        Raises:
            StatusError: 500, the conversion webhook failed.
        """
        if self.converts:
            await conversion.data_of(self.resource, [each for each in items if each is not None])

    def matches(self, stored: Stored) -> bool:
        """Return whether an object is selected; call `ready` with the object first."""
        if self.shards is not None and not self.shards.matches(stored):
            return False
        data = conversion.known(self.resource, stored) if self.converts else None
        obj = None if data is None or data is stored.data else orjson.loads(data)
        labels = stored.labels if obj is None else obj["metadata"].get("labels") or {}
        if self.labels is not None and not self.labels.matches(labels):
            return False
        if self.fields is None:
            return True
        values = {_NAME: stored.key.name, _NAMESPACE: stored.key.namespace}
        if self.decodes:
            values |= fields_of(self.resource, stored.decode() if obj is None else obj)
        return self.fields.matches(values)


def selectable(resource: Resource) -> frozenset[str]:
    """Return the fields that field selectors may name, besides metadata.name and metadata.namespace."""
    if resource.custom:
        return frozenset(field.removeprefix(".") for field in resource.selectable_fields)
    return frozenset(resource.strategy.fields({"metadata": {}, "spec": {}, "status": {}}))


def fields_of(resource: Resource, obj: Object) -> dict[str, str]:
    """Return the object's selectable fields, from the field's path to its value."""
    if not resource.custom:
        return dict(resource.strategy.fields(obj))
    return {field: _shown(value_at(obj, field)) for field in selectable(resource)}


def value_at(obj: Any, path: str) -> Any:
    """Return the value of a field such as `.spec.replicas`, None if it is missing."""
    for step in path.lstrip(".").split("."):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(step)
    return obj


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


_FORMAT = "meta.k8s.io/v1"
_INVALID = "invalid continue token: "
_NOT_VALID = _INVALID + "continue key is not valid: "


@dataclasses.dataclass(frozen=True, slots=True)
class Continuation:
    """Start of a list's next page: the last object of the page before, and the version (-1: the latest)."""

    version: int
    after: tuple[str, str]
    """The object before the page, as (namespace, name)."""

    def encode(self, *, in_namespace: bool) -> str:
        """Encode the token; set `in_namespace` for lists of one namespace or of a cluster-scoped resource."""
        namespace, name = self.after
        start = name if in_namespace or not namespace else f"{namespace}/{name}"
        document = {"v": _FORMAT, "rv": self.version, "start": f"{start}\0"}
        return base64.urlsafe_b64encode(orjson.dumps(document)).rstrip(b"=").decode()

    @classmethod
    def decode(cls, token: str, namespace: str) -> Continuation:
        """Decode a continue token; raise StatusError, 400, if it is invalid."""
        if (bad := _bad_byte(token)) < len(token):
            raise bad_request(f"{_NOT_VALID}illegal base64 data at input byte {bad}")
        try:
            text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except (binascii.Error, ValueError):
            raise bad_request(f"{_NOT_VALID}illegal base64 data at input byte {_bad_byte(token)}") from None
        try:
            document = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise bad_request(_NOT_VALID + describe(text)) from None
        version = document.get("v", "") if isinstance(document, dict) else ""
        if not isinstance(document, dict) or version != _FORMAT:
            raise bad_request(f"{_NOT_VALID}server does not recognize this encoded version {version}")
        version, start = document.get("rv"), document.get("start", "")
        if not isinstance(version, int) or version == 0:
            raise bad_request(f"{_NOT_VALID}incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
        if not isinstance(start, str) or not start:
            raise bad_request(f"{_NOT_VALID}encoded start key empty (version meta.k8s.io/v1)")
        start = start.removeprefix("/").removesuffix("\0")
        found, slash, name = start.partition("/")
        return cls(version, (found, name) if slash else (namespace, found))


def expired_continuation(after: tuple[str, str], *, in_namespace: bool) -> StatusError:
    """Build the 410 for an expired token, with a token that continues in the current state."""
    error = StatusError(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can start a new "
        "list without the continue parameter, or use the continue token in this response to retrieve the "
        "remainder of the results. Continuing with the provided token results in an inconsistent list - "
        "objects that were created, modified, or deleted between the time the first chunk was returned and "
        "now may show up in the list.",
    )
    error.metadata = {"continue": Continuation(-1, after).encode(in_namespace=in_namespace)}
    return error


def _bad_byte(token: str) -> int:
    alphabet = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    whole = len(token) - (len(token) % 4 == 1)  # a single last character has no data
    return next((place for place, each in enumerate(token) if each not in alphabet), whole)


_PORTION: Final = 500
"""The number of objects to convert at a time, since a list with a limit may not need all of them."""
_TURN: Final = 1 << 20
"""Bytes of JSON that a request decodes before other requests run, which takes about 10 ms."""
_LEAST: Final = 2 << 10
"""The minimum bytes to count for an object: decoding a tiny object takes as long as decoding 2 KiB."""


class _Turns:
    """Counter of work done, which lets other requests run while one request processes many objects."""

    def __init__(self) -> None:
        self._left = _TURN

    async def worked(self, size: int) -> None:
        """Count the work for an object of `size` bytes; after enough work, let other requests run."""
        self._left -= max(size, _LEAST)
        if self._left < 0:
            self._left = _TURN
            await asyncio.sleep(0)


class Reader:
    """A reader of objects and lists from the store, which decodes objects only if necessary."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def get(self, call: Call, representation: Representation) -> ApiResponse:
        """Answer a get; raise StatusError, such as 404, or 504 for a resourceVersion in the future."""
        resource = call.resource
        check_export(call)
        if version := call.request.option("resourceVersion"):
            number = parse_version(version, bare=True)
            if number > self._store.version:
                raise future_version(number, self._store.version)
        stored = self._store.get(call.key)
        if stored is None or not (resource.shows is None or resource.shows(stored)):
            raise not_found(resource.group, resource.plural, call.name)
        await self._store.settled(stored.version)
        # With a resourceVersion, a read uses cached conversions; without one, it calls the webhook.
        data = (conversion.known if version else conversion.rewritten)(resource, stored)
        if data is None:
            data = orjson.dumps(await conversion.read(resource, stored, anew=not version))
        return await self.one(call, data, representation)

    async def one(
        self, call: Call, data: bytes, representation: Representation, *, status: int = 200
    ) -> ApiResponse:
        """Build a response from one object's JSON; raise StatusError, 406, for a list representation."""
        if not representation.transform:
            return await encode(data, representation, status=status)
        if representation.transform == "PartialObjectMetadataList":
            raise tables.not_transformed(call.resource, is_list=False)
        if representation.transform == "PartialObjectMetadata":
            return await encode(tables.partial_metadata(data, representation), representation, status=status)
        obj = orjson.loads(data)
        metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        rows = self._rows(call, [obj], representation)
        return await encode(self._table(call, rows, metadata, representation), representation, status=status)

    async def list_objects(
        self, call: Call, options: ListOptions, representation: Representation
    ) -> ApiResponse:
        """Answer a list; raise StatusError for an invalid version, token or selector."""
        if representation.transform == "PartialObjectMetadata":
            raise tables.not_transformed(call.resource, is_list=True)
        if representation.transform == "Table":
            tables.check_include(call.request.option("includeObject"))
        selection = Selection.of(call.resource, options)
        _, items, metadata = await self.select(call, options, selection)
        await self._store.settled(self._store.version)
        return await self.listed(call, items, metadata, representation)

    async def listed(
        self, call: Call, items: Sequence[Stored], metadata: Object, representation: Representation
    ) -> ApiResponse:
        """Build a response with a list of `items`."""
        if representation.transform:
            metadata = {name: value for name, value in metadata.items() if name != "shardInfo"}
        if representation.transform == "Table":
            rows: list[Object] = []
            turns = _Turns()
            for each in await conversion.data_of(call.resource, items):
                rows += self._rows(call, [orjson.loads(each)], representation)
                await turns.worked(len(each))
            return await encode(self._table(call, rows, metadata, representation), representation)
        return await encode(await self._list(call, items, metadata, representation), representation)

    async def select(
        self, call: Call, options: ListOptions, selection: Selection
    ) -> tuple[int, Sequence[Stored], Object]:
        """Return version, objects and metadata of a list; raise StatusError for an invalid request."""
        namespace = call.namespace or (selection.namespace if call.resource.namespaced else "")
        in_namespace = bool(call.namespace) or not call.resource.namespaced
        version, after = self._start(call, options)
        present = version == self._store.version
        if present and selection.name is not None and (namespace or not call.resource.namespaced):
            one = self._store.get(call.key_of(selection.name)._replace(namespace=namespace))
            items: Sequence[Stored] = [] if one is None else [one]
        elif present:
            items = self._store.select(*call.resource.stored, namespace)
        else:
            try:
                items = self._store.select_at(version, *call.resource.stored, namespace)
            except Expired:
                if options.continued:
                    raise expired_continuation(after, in_namespace=in_namespace) from None
                raise expired("The resourceVersion for the provided list is too old.") from None
        if call.resource.shows is not None:
            items = list(filter(call.resource.shows, items))
        if after != ("", ""):
            items = [each for each in items if (each.key.namespace, each.key.name) > after]
        metadata: Object = {"resourceVersion": str(version)}
        # As from the real server's watch cache, which ignores the limit.
        limit = 0 if options.version == "0" and not options.match else options.limit
        count = len(items)
        if not selection.everything:
            items, more = await matching(items, selection, limit)
        else:
            more = limit > 0 and count > limit
        if more:
            last = items[limit - 1].key
            metadata["continue"] = Continuation(version, (last.namespace, last.name)).encode(
                in_namespace=in_namespace
            )
            if selection.whole:
                metadata["remainingItemCount"] = count - limit
            items = items[:limit]
        if selection.shards is not None and not call.resource.custom:
            metadata["shardInfo"] = {"selector": str(selection.shards)}
        return version, items, metadata

    def _start(self, call: Call, options: ListOptions) -> tuple[int, tuple[str, str]]:
        """Return the resource version of a list, and the object after which the list starts."""
        current = self._store.version
        if options.continued:
            token = Continuation.decode(options.continued, call.namespace)
            if options.version and options.version != "0":
                raise bad_request("specifying resource version is not allowed when using continue")
            if token.version > current:
                raise expired_continuation(token.after, in_namespace=bool(call.namespace))
            return (current if token.version < 0 else token.version), token.after
        if not options.version or options.version == "0":
            return current, ("", "")
        version = parse_version(options.version)
        if version > current:
            raise future_version(version, current)
        exact = options.match == "Exact" or (not options.match and options.limit > 0)
        return (version if exact else current), ("", "")

    async def _list(
        self, call: Call, items: Sequence[Stored], metadata: Object, representation: Representation
    ) -> bytes:
        resource = call.resource
        if representation.transform:
            kind, api_version = "PartialObjectMetadataList", representation.api_version
            # A conversion may have changed labels and annotations.
            converts = resource.custom and resource.convert is not None
            objects = await conversion.data_of(resource, items) if converts else [each.data for each in items]
            shown = [tables.partial_metadata(each, representation) for each in objects]
        else:
            kind, api_version = resource.list_kind, resource.api_version
            if resource.custom:  # lists of custom objects always have a token, which is empty at the end
                metadata = {"continue": "", **metadata}
            shown = await self._items(call, items)
        head = f'{{"kind":"{kind}","apiVersion":"{api_version}","metadata":'.encode()
        head += orjson.dumps(metadata) + b',"items":'
        if not shown:
            return head + (b"null}" if representation.transform else b"[]}")
        # Copy a long list only once.
        shown[0] = head + b"[" + shown[0]
        shown[-1] += b"]}"
        return b",".join(shown)

    async def _items(self, call: Call, items: Sequence[Stored]) -> list[bytes]:
        """Return the JSON of each list item; items of built-in kinds have no kind and apiVersion."""
        resource = call.resource
        if resource.custom:
            return await conversion.data_of(resource, items)
        head = conversion.head(resource.kind, conversion.storage_api_version(resource))
        if resource.convert is None and all(each.data.startswith(head) for each in items):
            skipped = len(head)
            return [b"{" + each.data[skipped:] for each in items]
        shown = []
        for each in items:
            obj = await conversion.read(resource, each)
            obj.pop("kind", None)
            obj.pop("apiVersion", None)
            shown.append(orjson.dumps(obj))
        return shown

    def _rows(self, call: Call, objects: Iterable[Object], representation: Representation) -> list[Object]:
        include = call.request.option("includeObject")
        return [tables.table_row(call.resource, obj, include, representation, self._clock) for obj in objects]

    def _table(
        self, call: Call, rows: list[Object], metadata: Object, representation: Representation
    ) -> Object:
        tables.check_include(call.request.option("includeObject"))
        return tables.table(tables.column_definitions(call.resource), rows, metadata, representation)


def parse_version(text: str, *, bare: bool = False) -> int:
    """Parse a resourceVersion; `bare` selects the error message of gets and watches.

    Raises:
        StatusError: the text is not a resourceVersion.
    """
    if re.fullmatch(r"[0-9]{1,20}", text, re.ASCII) and int(text) < 1 << 64:
        return int(text)
    shown = text.replace("\\", "\\\\").replace('"', '\\"')
    why = "value out of range" if text.isdigit() else "invalid syntax"
    detail = f'resourceVersion: Invalid value: "{shown}": strconv.ParseUint: parsing "{shown}": {why}'
    if bare:
        raise StatusError(500, "", detail)
    raise bad_request(f"invalid resource version: {detail}")


def future_version(asked: int, current: int) -> StatusError:
    """Build the 504 for a resourceVersion that does not exist yet."""
    error = timed_out(f"Too large resource version: {asked}, current: {current}", retry_after=1)
    error.details["causes"] = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return error


def check_export(call: Call) -> None:
    """Raise StatusError, 400, for the removed `export` parameter."""
    if boolean_of(call.request.query, "export"):
        raise bad_request("the export parameter, deprecated since v1.14, is no longer supported")


async def matching(
    items: Sequence[Stored], selection: Selection, limit: int = 0
) -> tuple[list[Stored], bool]:
    """Return the first `limit` selected objects (all if 0), and whether any items follow, selected or not.

    Raises:
        StatusError: 500, the conversion webhook failed.
    """
    found: list[Stored] = []
    turns = _Turns()
    for index, each in enumerate(items, 1):
        if index % _PORTION == 1:
            await selection.ready(items[index - 1 : index - 1 + _PORTION])
        await turns.worked(len(each.data) if selection.decodes else 0)
        if selection.matches(each):
            found.append(each)
            if len(found) == limit:
                return found, index < len(items)
    return found, False
