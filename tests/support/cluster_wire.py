"""A control plane in the test's process; it answers HTTP requests that come from scripted wires.

    async with DevCluster(port=None, controllers=False) as cluster:
        server = ClusterServer(cluster)
        wire = ScriptedWire()
        server.serve(wire)
        wire.on("PUT", path, LostAfter(server.answer), server.answer)  # a fault, and then none

Each client can have its own wire; the server can serve several wires at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote

from devcluster import DevCluster
from devcluster.errors import StatusError
from devcluster.http_call import ApiRequest, ApiResponse
from tests.support.scripted_wire import Delayed, Reply, ScriptedWire, Sent, Step, Stream


class ClusterServer:
    """Server that passes HTTP requests from scripted wires to a control plane."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        self.api = cluster.client
        """Client of the control plane that uses no wire."""
        self._watches: list[_Watch] = []

    def serve(self, wire: ScriptedWire, path: str = "/*") -> None:
        """Let the control plane answer the wire's requests to `path` (which may end in `*`)."""
        for method in ("GET", "PUT", "POST", "PATCH", "DELETE"):
            wire.on(method, path, self.answer)

    async def answer(self, sent: Sent) -> Step:
        request = ApiRequest(
            method=sent.method,
            path=unquote(sent.path),
            query={name: [value] for name, value in sent.query.items()},
            headers={
                **{name.lower(): value for name, value in sent.headers.items()},
                "authorization": f"Bearer {self.cluster.token}",
            },
            body=sent.body or b"",
        )
        try:
            answer = await self.cluster.handle(request)
        except StatusError as refusal:
            answer = ApiResponse.failure(refusal)
        if answer.stream is None:
            return Reply(answer.status, answer.body, {"Content-Type": answer.content_type, **answer.headers})
        self._watches.append(_Watch(answer.stream))
        return self._watches[-1]

    def late(self, seconds: float) -> Step:
        """Return a step: the control plane acts immediately, and its response comes after `seconds`."""

        async def act(sent: Sent) -> Step:
            return Delayed(seconds, await self.answer(sent))

        return act

    def silence(self) -> None:
        """Stop all events of open watches, and leave the watches open."""
        for watch in self._watches:
            watch.silent = True
        self._watches.clear()


class _Watch(Stream):
    """Stream of the control plane's watch events, open as long as a client reads it."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        super().__init__()
        self._chunks: Any = chunks
        self.silent = False

    async def next_piece(self) -> bytes | None:
        piece: bytes | None = await anext(self._chunks, None)
        if self.silent:
            await asyncio.Event().wait()
        return piece

    async def aclose(self) -> None:
        await super().aclose()
        await self._chunks.aclose()
