"""The page with the metrics, over plain HTTP: one request for each connection, and few of those at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from petstore.address import BindAddress

__all__ = ["serve_metrics"]

_CONNECTIONS: Final = 32
_SECONDS: Final = 10.0
"""For a request and its answer together."""
_HEAD_BYTES: Final = 8 * 1024
_OPEN_METRICS: Final = "application/openmetrics-text"


@contextlib.asynccontextmanager
async def serve_metrics(
    address: BindAddress, registry: CollectorRegistry, *, seconds: float = _SECONDS
) -> AsyncIterator[int]:
    """Serve `/metrics` while entered, at the port that this yields; raises OSError when it cannot listen.

    A connection ends with its answer, or after `seconds`. When there are too many, the oldest one gives way:
    whoever says nothing, or takes no answer, keeps nobody out.
    """
    page = _Page(registry, seconds)
    sockets = await asyncio.to_thread(address.listen)
    port = int(sockets[0].getsockname()[1])
    servers = [await asyncio.start_server(page.serve, sock=each, limit=_HEAD_BYTES) for each in sockets]
    try:
        yield port
    finally:
        for server in servers:
            server.close()
        await page.close()


class _Page:
    def __init__(self, registry: CollectorRegistry, seconds: float) -> None:
        self._registry = registry
        self._seconds = seconds
        self._tasks: dict[asyncio.Task[None], Callable[[], None]] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= _CONNECTIONS:
            oldest = next(iter(self._tasks))
            self._tasks.pop(oldest)()
        self._tasks[task] = writer.transport.abort
        try:
            async with asyncio.timeout(self._seconds):
                writer.write(await self._answer(reader))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            self._tasks.pop(task, None)

    async def close(self) -> None:
        """Cut off who is there."""
        tasks = list(self._tasks)
        for task in tasks:
            self._tasks.pop(task)()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _response("431 Request Header Fields Too Large")
        line, *fields = head.decode("latin-1").split("\r\n")
        match line.split(" "):
            case ["GET" | "HEAD" as method, target, version] if version.startswith("HTTP/1."):
                pass
            case [_, _, version] if version.startswith("HTTP/1."):
                return _response("405 Method Not Allowed", "Allow: GET, HEAD")
            case _:
                return _response("400 Bad Request")
        if target.partition("?")[0] != "/metrics":
            return _response("404 Not Found")
        accepted = [field[len("accept:") :] for field in fields if field.lower().startswith("accept:")]
        # Of versions that clients make up some cannot be read.
        encode, kind = choose_encoder(
            _OPEN_METRICS if any(_OPEN_METRICS in each for each in accepted) else ""
        )
        page = await asyncio.to_thread(encode, self._registry)  # it reads files of the system
        return _response("200 OK", f"Content-Type: {kind}", body=page, only_head=method == "HEAD")


def _response(status: str, *fields: str, body: bytes = b"", only_head: bool = False) -> bytes:
    lines = [f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + (b"" if only_head else body)
