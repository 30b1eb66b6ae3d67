"""Subresources other than the status."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import orjson

from manager.api import Resource
from manager.client.write import DRY_RUN, JSON, MERGE_PATCH, Writer
from manager.kube.decoding import json_object

__all__ = ["SubresourceClient"]


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

    async def create(
        self, obj: Resource, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        """POST to the subresource: an Eviction of a pod, a TokenRequest of a service account."""
        return await self._send("POST", obj, body, JSON, dry_run)

    async def patch(
        self, obj: Resource, changes: Mapping[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Merge `changes` into the subresource: `{"spec": {"replicas": 3}}` for a scale."""
        return await self._send("PATCH", obj, changes, MERGE_PATCH, dry_run)

    async def update(
        self, obj: Resource, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Replace the subresource."""
        return await self._send("PUT", obj, body, JSON, dry_run)

    async def _send(
        self, method: str, obj: Resource, body: Mapping[str, Any], content_type: str, dry_run: bool
    ) -> dict[str, Any]:
        encoded = orjson.dumps(body)
        raw = await self._writer.send_subresource(
            method, type(obj), obj.key, self._name, encoded, content_type, DRY_RUN if dry_run else {}
        )
        return json_object(raw, f"a {self._name}")
