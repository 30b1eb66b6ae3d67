"""A server that answers every request with the same bytes, for the cost of asking.

    python -m benchmarks.micro.loopback

Prints its port. A process of its own, so that its CPU is not taken for the client's; it ends with its input.
"""

from __future__ import annotations

import asyncio
import re
import sys

from benchmarks.micro.documents import sample

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class Answering(asyncio.Protocol):
    """HTTP/1.1 as far as our own clients speak it."""

    def __init__(self) -> None:
        body = sample("memcached")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._answer = head.encode() + body
        self._begun = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of a new connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer what is complete."""
        self._begun += data
        while True:
            head, found, rest = self._begun.partition(b"\r\n\r\n")
            length = int(match[1]) if (match := _LENGTH.search(head)) else 0
            if not found or len(rest) < length:
                return
            self._begun = rest[length:]
            assert self._transport is not None
            self._transport.write(self._answer)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Answering, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
