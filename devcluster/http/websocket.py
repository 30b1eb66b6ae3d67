"""A WebSocket on the server's side (RFC 6455), without extensions."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import deque
from collections.abc import Callable

from devcluster.exchange import ApiResponse

__all__ = ["ServerSocket", "handshake"]

_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_FINAL, _MASKED = 0x80, 0x80
_SHORT, _MIDDLE = 126, 127
"""Length values that announce a real length of two or eight bytes."""
_MOST_WAITING = 16
"""The maximum of unread messages, at which the server stops reading the connection."""

LONGEST_MESSAGE = 4 * 1024 * 1024
"""The maximum bytes of a message; a longer one ends the connection."""

NORMAL, BAD, TOO_LONG = 1000, 1002, 1009
"""Status codes of a closed WebSocket."""


def handshake(answer: ApiResponse, key: str) -> bytes:
    """Return the head that accepts a WebSocket whose client has sent this key."""
    accept = base64.b64encode(hashlib.sha1(f"{key}{_MAGIC}".encode()).digest()).decode()  # noqa: S324 -- as the RFC says
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {accept}",
        *(f"{name}: {value}" for name, value in answer.headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class ServerSocket:
    """A `devcluster.exchange.WebSocket` on the bytes of a connection."""

    def __init__(
        self,
        write: Callable[[bytes], None],
        drain: Callable[[], asyncio.Future[None] | None],
        pause: Callable[[bool], None],
    ) -> None:
        """Set up; `write` sends bytes, `drain` returns a future, `pause` stops or resumes reading."""
        self._write = write
        self._drain = drain
        self._pause = pause
        self._received = bytearray()
        self._parts: list[bytes] = []
        self._messages: deque[bytes] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._ended = self._closed = False

    async def receive(self) -> bytes | None:
        """Return the next message, None when the client sends no more."""
        while not self._messages:
            if self._ended:
                return None
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        if len(self._messages) == _MOST_WAITING:
            self._pause(False)
        return self._messages.popleft()

    async def send(self, message: bytes) -> None:
        """Send a binary message; raises ConnectionError when the client has gone."""
        self._send(_BINARY, message)
        if (writable := self._drain()) is not None:
            await writable

    def feed(self, data: bytes) -> None:
        """Take bytes that the client has sent."""
        self._received += data
        while not self._ended and self._take_frame():
            pass

    def lost(self) -> None:
        """End the socket after the client has gone."""
        self._ended = self._closed = True
        self._wake()

    def close(self, code: int = NORMAL) -> None:
        """Say that this is the end, once."""
        if not self._closed:
            self._closed = self._ended = True
            self._send(_CLOSE, code.to_bytes(2))
            self._wake()

    def _take_frame(self) -> bool:
        """Take a frame, if all of it is there."""
        data = self._received
        if len(data) < 2:  # noqa: PLR2004 -- the least that a frame has
            return False
        size, start = data[1] & ~_MASKED, 2
        if size in {_SHORT, _MIDDLE}:
            start += 2 if size == _SHORT else 8
            if len(data) < start:
                return False
            size = int.from_bytes(data[2:start])
        if not data[1] & _MASKED:
            self.close(BAD)
            return False
        if size + sum(map(len, self._parts)) > LONGEST_MESSAGE:
            self.close(TOO_LONG)
            return False
        end = start + 4 + size
        if len(data) < end:
            return False
        payload = _unmasked(data[start + 4 : end], bytes(data[start : start + 4]))
        first = data[0]
        del data[:end]
        self._take(first & 0x0F, payload, final=bool(first & _FINAL))
        return True

    def _take(self, opcode: int, payload: bytes, *, final: bool) -> None:
        if opcode == _CLOSE:
            self.close()
        elif opcode == _PING:
            self._send(_PONG, payload)
        elif opcode in {_CONTINUATION, _TEXT, _BINARY}:
            self._parts.append(payload)
            if final:
                self._messages.append(b"".join(self._parts))
                self._parts.clear()
                if len(self._messages) == _MOST_WAITING:
                    self._pause(True)
                self._wake()

    def _send(self, opcode: int, payload: bytes) -> None:
        size = len(payload)
        if size < _SHORT:
            head = bytes([_FINAL | opcode, size])
        elif size < 1 << 16:
            head = bytes([_FINAL | opcode, _SHORT]) + size.to_bytes(2)
        else:
            head = bytes([_FINAL | opcode, _MIDDLE]) + size.to_bytes(8)
        self._write(head + payload)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)


def _unmasked(payload: bytes | bytearray, mask: bytes) -> bytes:
    size = len(payload)
    repeated = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload) ^ int.from_bytes(repeated)).to_bytes(size)
