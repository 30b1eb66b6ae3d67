"""The requests themselves; the answer to a write is at once what the cache shows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from manager.api import GroupVersionKind, ObjectKey, Resource
from manager.cache import Cache
from manager.kube.errors import NoMatch
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport

__all__ = ["Writer", "whole_object"]

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
# Apply takes YAML; JSON is YAML.
APPLY_PATCH = "application/apply-patch+yaml"


def whole_object(obj: Resource) -> dict[str, Any]:
    """The object as a create or an update sends it.

    Without `managedFields`: a cached object carries our own entries only, and the server would take them for
    all there are. Left out, they stay as they are.
    """
    wire = obj.to_wire()
    wire.get("metadata", {}).pop("managedFields", None)
    return wire


class Writer:
    """Sends writes as bytes and hands each answer to the caches, so that the next read sees it."""

    def __init__(self, transport: Transport, mapper: RestMapper, cache: Cache) -> None:
        self._transport = transport
        self._mapper = mapper
        self._cache = cache

    async def check_owners(self, obj: Resource) -> None:
        """Raise ValueError for an owner that the object cannot have: in a namespace, where it is in none.

        The garbage collector would take the object for an orphan, and delete it.
        """
        if obj.namespaced:
            return  # in which namespace the owner is, a reference does not say: it is the object's
        for owner in obj.metadata.owner_references:
            gvk = GroupVersionKind.from_api_version(owner.api_version, owner.kind)
            try:
                mapping = await self._mapper.resolve(gvk)
            except NoMatch:
                continue
            if mapping.namespaced:
                child = f"{obj.kind} {obj.metadata.name}"
                raise ValueError(f"{owner.kind} {owner.name} cannot own {child}, which is in no namespace")

    async def read(self, kind: type[Resource], key: ObjectKey, subresource: str = "") -> bytes:
        """The object as the server has it now, with every manager's fields."""
        mapping = await self._mapper.resolve(kind.gvk)
        return await self._transport.request("GET", mapping.path(key.namespace, key.name, subresource))

    @asynccontextmanager
    async def stream(
        self,
        kind: type[Resource],
        key: ObjectKey,
        subresource: str,
        query: Mapping[str, str],
        *,
        idle_timeout: float,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """An answer that goes on for long, piece by piece as it arrives; see `Transport.stream`."""
        mapping = await self._mapper.resolve(kind.gvk)
        path = mapping.path(key.namespace, key.name, subresource)
        async with self._transport.stream(
            path, query=query, accept="*/*", idle_timeout=idle_timeout
        ) as chunks:
            yield chunks

    async def send_create(
        self, kind: type[Resource], namespace: str, body: bytes, field_manager: str
    ) -> bytes:
        """POST to the collection, booked under `field_manager`; the object as stored."""
        mapping = await self._mapper.resolve(kind.gvk)
        raw = await self._transport.request(
            "POST", mapping.path(namespace), query={"fieldManager": field_manager}, body=body
        )
        self._cache.observe_write(kind, raw, before=0)
        return raw

    async def send_update(
        self,
        kind: type[Resource],
        key: ObjectKey,
        body: bytes,
        field_manager: str,
        subresource: str = "",
        *,
        replaces: str = "",
    ) -> bytes:
        """PUT the whole object, or a subresource of it; the object as stored.

        `replaces` is the resourceVersion that the body demands, if it does.
        """
        query = {"fieldManager": field_manager}
        return await self._send("PUT", JSON, kind, key, body, query, subresource, replaces)

    async def send_merge_patch(
        self,
        kind: type[Resource],
        key: ObjectKey,
        body: bytes,
        field_manager: str,
        subresource: str = "",
        *,
        replaces: str = "",
    ) -> bytes:
        """PATCH with a merge patch; the object as stored.

        `replaces` is the resourceVersion that the body demands, if it does.
        """
        query = {"fieldManager": field_manager}
        return await self._send("PATCH", MERGE_PATCH, kind, key, body, query, subresource, replaces)

    async def send_json_patch(
        self, kind: type[Resource], key: ObjectKey, body: bytes, field_manager: str, subresource: str = ""
    ) -> bytes:
        """PATCH with a JSON patch; the object as stored."""
        return await self._send(
            "PATCH", JSON_PATCH, kind, key, body, {"fieldManager": field_manager}, subresource
        )

    async def send_apply(
        self, kind: type[Resource], key: ObjectKey, body: bytes, field_manager: str, subresource: str = ""
    ) -> bytes:
        """Server-side apply; the object as stored.

        Forced: a controller must not stand still because somebody else set one of its fields.
        """
        query = {"fieldManager": field_manager, "force": "true"}
        return await self._send("PATCH", APPLY_PATCH, kind, key, body, query, subresource)

    async def send_delete(self, kind: type[Resource], key: ObjectKey, uid: str | None, body: bytes) -> None:
        """DELETE with DeleteOptions; `uid` is that of the object meant, where known."""
        mapping = await self._mapper.resolve(kind.gvk)
        raw = await self._transport.request("DELETE", mapping.path(key.namespace, key.name), body=body)
        self._cache.observe_delete(kind, key, uid, raw)

    async def send_subresource(
        self,
        method: str,
        kind: type[Resource],
        key: ObjectKey,
        subresource: str,
        body: bytes,
        content_type: str,
    ) -> bytes:
        """A write whose answer is another object (a Scale, say): the caches learn of it by watch."""
        mapping = await self._mapper.resolve(kind.gvk)
        path = mapping.path(key.namespace, key.name, subresource)
        return await self._transport.request(method, path, body=body, content_type=content_type)

    async def _send(
        self,
        method: str,
        content_type: str,
        kind: type[Resource],
        key: ObjectKey,
        body: bytes,
        query: dict[str, str],
        subresource: str,
        replaces: str = "",
    ) -> bytes:
        mapping = await self._mapper.resolve(kind.gvk)
        path = mapping.path(key.namespace, key.name, subresource)
        raw = await self._transport.request(method, path, query=query, body=body, content_type=content_type)
        self._cache.observe_write(kind, raw, before=int(replaces or 0) or None)  # "0" demands nothing
        return raw
