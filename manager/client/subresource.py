"""Status and the other subresources of an object."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import orjson

from apis.meta import Resource
from manager.client.reader import decode_object
from manager.client.write import JSON, MERGE_PATCH, Writer, whole_object
from manager.kube.decoding import json_object

__all__ = ["StatusClient", "SubresourceClient"]

R = TypeVar("R", bound=Resource)


class StatusClient:
    """Writes `status`, which the server keeps apart from the rest of an object."""

    def __init__(self, writer: Writer, *, field_manager: str) -> None:
        self._writer = writer
        self._field_manager = field_manager

    async def patch(self, obj: R) -> R:
        """Write the status if it differs from the one the object was read with; returns the object as stored.

        One request, or none when nothing differs. It demands no version, so changes to the rest of the
        object never refuse it: right where one controller alone writes the status. Raises Invalid when the
        object was replaced by another of its name.
        """
        raw = await self._write(obj)
        return obj if raw is None else decode_object(raw, type(obj), obj.key)

    async def report(self, obj: Resource) -> bool:
        """What `patch` does, for the end of a reconcile: the answer goes to the cache, and is not decoded.

        Returns whether anything was sent.
        """
        return await self._write(obj) is not None

    async def _write(self, obj: Resource) -> bytes | None:
        """Send the status if it differs; returns the object as stored, None when nothing was sent."""
        after = obj.to_wire(only={"status"}).get("status", {})
        before = orjson.loads(obj.origin).get("status", {}) if obj.origin is not None else {}
        if after == before:
            return None
        patch = [{"op": "add", "path": "/status", "value": after}]
        if obj.metadata.uid:
            # The server ignores a uid in the body of a status write. Without this test, the status of a
            # deleted object would be written to one that was created under its name meanwhile.
            patch.insert(0, {"op": "test", "path": "/metadata/uid", "value": obj.metadata.uid})
        return await self._writer.send_json_patch(
            type(obj), obj.key, orjson.dumps(patch), self._field_manager, "status"
        )

    async def update(self, obj: R) -> R:
        """Replace the whole status; raises Conflict when the object changed since it was read."""
        body = orjson.dumps(whole_object(obj))
        raw = await self._writer.send_update(type(obj), obj.key, body, self._field_manager, "status")
        return decode_object(raw, type(obj), obj.key)


class SubresourceClient:
    """A subresource with a shape of its own, such as `scale` or `eviction`, as plain JSON values."""

    def __init__(self, writer: Writer, name: str) -> None:
        self._writer = writer
        self._name = name

    async def get(self, obj: Resource) -> dict[str, Any]:
        """Read the subresource from the server."""
        return json_object(await self._writer.read(type(obj), obj.key, self._name), f"a {self._name}")

    def stream(
        self, obj: Resource, query: Mapping[str, str], *, idle_timeout: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Read an answer that goes on for long, as pieces of any size: the log of a pod, followed.

            async with client.subresource("log").stream(pod, {"follow": "true"}, idle_timeout=300) as chunks:
                async for chunk in chunks: ...

        Nothing is retried. Raises ApiError before the first piece, and TransportError before it or on any:
        the connection could not be made or broke, or nothing came for `idle_timeout` seconds.
        """
        return self._writer.stream(type(obj), obj.key, self._name, query, idle_timeout=idle_timeout)

    async def create(self, obj: Resource, body: Mapping[str, Any]) -> dict[str, Any]:
        """POST to the subresource: an Eviction of a pod, a TokenRequest of a service account."""
        return await self._send("POST", obj, body, JSON)

    async def patch(self, obj: Resource, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Merge `changes` into the subresource: `{"spec": {"replicas": 3}}` for a scale."""
        return await self._send("PATCH", obj, changes, MERGE_PATCH)

    async def update(self, obj: Resource, body: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the subresource."""
        return await self._send("PUT", obj, body, JSON)

    async def _send(
        self, method: str, obj: Resource, body: Mapping[str, Any], content_type: str
    ) -> dict[str, Any]:
        encoded = orjson.dumps(body)
        raw = await self._writer.send_subresource(
            method, type(obj), obj.key, self._name, encoded, content_type
        )
        return json_object(raw, f"a {self._name}")
