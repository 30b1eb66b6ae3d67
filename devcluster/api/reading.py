"""Getting one object, and listing many."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import orjson

from devcluster.api import conversion, tables
from devcluster.api.negotiation import Representation, encode
from devcluster.api.options import ListOptions
from devcluster.api.paging import Continuation, expired_continuation
from devcluster.api.request_context import Call
from devcluster.api.selection import Selection
from devcluster.clock import Clock
from devcluster.errors import StatusError, bad_request, expired, not_found, timed_out
from devcluster.http_call import ApiResponse
from devcluster.storage.errors import Expired
from devcluster.storage.records import Stored
from devcluster.storage.store import Store

__all__ = ["Reader", "future_version", "parse_version"]

Object = dict[str, Any]

_PORTION: Final = 500
"""How many objects are converted for selection at a time: a list with a limit may not need all of them."""


class Reader:
    """Gets and lists from the store, without decoding objects if their JSON is enough."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def get(self, call: Call, representation: Representation) -> ApiResponse:
        """Answer a get.

        Raises:
            StatusError: 404, 406, or 504 for a future version.
        """
        resource = call.resource
        check_export(call)
        if version := call.request.option("resourceVersion"):
            number = parse_version(version, bare=True)
            if number > self._store.version:
                raise future_version(number, self._store.version)
        stored = self._store.get(call.key)
        if stored is None:
            raise not_found(resource.group, resource.plural, call.name)
        await self._store.settled(stored.version)
        # A read of any version uses cached conversions; a read of the latest asks the webhook.
        data = (conversion.known if version else conversion.rewritten)(resource, stored)
        if data is None:
            data = orjson.dumps(await conversion.read(resource, stored, anew=not version))
        return self.one(call, data, representation)

    def one(
        self, call: Call, data: bytes, representation: Representation, *, status: int = 200
    ) -> ApiResponse:
        """Build a response with one object; `data` is its JSON.

        Raises:
            StatusError: 406 for a representation that one object does not have.
        """
        if not representation.transform:
            return encode(data, representation, status=status)
        if representation.transform == "PartialObjectMetadataList":
            raise tables.not_a_list(call.resource)
        if representation.transform == "PartialObjectMetadata":
            return encode(tables.partial_metadata(data, representation), representation, status=status)
        obj = orjson.loads(data)
        metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        return encode(self._table(call, [obj], metadata, representation), representation, status=status)

    async def list_objects(
        self, call: Call, options: ListOptions, representation: Representation
    ) -> ApiResponse:
        """Answer a list.

        Raises:
            StatusError: the real server's error for an invalid version, token or selector.
        """
        if representation.transform == "PartialObjectMetadata":
            raise tables.a_list(call.resource)
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
            objects = [orjson.loads(each) for each in await conversion.data_of(call.resource, items)]
            return encode(self._table(call, objects, metadata, representation), representation)
        return encode(await self._list(call, items, metadata, representation), representation)

    async def select(
        self, call: Call, options: ListOptions, selection: Selection
    ) -> tuple[int, Sequence[Stored], Object]:
        """Return the version of a list, its objects, and its metadata.

        Raises:
            StatusError: as `list`.
        """
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
        if after != ("", ""):
            items = [each for each in items if (each.key.namespace, each.key.name) > after]
        metadata: Object = {"resourceVersion": str(version)}
        limit, count = options.limit, len(items)
        if not selection.everything:
            items, more = await _matching(items, selection, limit)
        else:
            more = limit > 0 and count > limit
        if more and not (options.version == "0" and not options.match):
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
        """Return the version to list, and the object after which the list starts."""
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
            # A conversion may have changed the labels and the annotations.
            converts = resource.custom and resource.convert is not None
            objects = await conversion.data_of(resource, items) if converts else [each.data for each in items]
            shown = [tables.partial_metadata(each, representation) for each in objects]
        else:
            kind, api_version = resource.list_kind, resource.api_version
            if resource.custom:  # custom lists always have the token, empty at the end
                metadata = {"continue": "", **metadata}
            shown = await self._items(call, items)
        head = f'{{"kind":"{kind}","apiVersion":"{api_version}","metadata":'.encode()
        joined = b"[%b]" % b",".join(shown) if shown or not representation.transform else b"null"
        return b"".join((head, orjson.dumps(metadata), b',"items":', joined, b"}"))

    async def _items(self, call: Call, items: Sequence[Stored]) -> list[bytes]:
        """Return the objects as a list contains them: built-in kinds without kind and apiVersion."""
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

    def _table(
        self, call: Call, objects: list[Object], metadata: Object, representation: Representation
    ) -> Object:
        include = call.request.option("includeObject")
        tables.check_include(include)
        rows = [tables.table_row(call.resource, obj, include, representation, self._clock) for obj in objects]
        return tables.table(tables.column_definitions(call.resource), rows, metadata, representation)


def parse_version(text: str, *, bare: bool = False) -> int:
    """Parse a resourceVersion; `bare` selects the error of gets and watches.

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
    """Build the 504 for a future version."""
    error = timed_out(f"Too large resource version: {asked}, current: {current}", retry_after=1)
    error.details["causes"] = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return error


def check_export(call: Call) -> None:
    """Raise StatusError, 400, for the removed `export` parameter."""
    values = call.request.query.get("export")
    if values and values[0].lower() not in {"false", "0"}:
        raise bad_request("the export parameter, deprecated since v1.14, is no longer supported")


async def _matching(items: Sequence[Stored], selection: Selection, limit: int) -> tuple[list[Stored], bool]:
    """Return the first `limit` selected objects (0: all), and whether any objects follow them."""
    matching: list[Stored] = []
    for index, each in enumerate(items, 1):
        if index % _PORTION == 1:
            await selection.ready(items[index - 1 : index - 1 + _PORTION])
        if selection.matches(each):
            matching.append(each)
            if len(matching) == limit:
                return matching, index < len(items)
    return matching, False
