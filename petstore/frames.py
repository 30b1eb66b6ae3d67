"""Frames of HTTP/2 and records of TLS, as they pass: what gRPC does not bound is found here."""

from __future__ import annotations

from typing import Final

__all__ = ["FromClient", "FromServer", "Records", "Unbearable"]

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _PUSH_PROMISE, _CONTINUATION = 0, 1, 4, 5, 9
_END_STREAM, _END_HEADERS = 0x1, 0x4

_MAX_FRAME: Final = 16_384
"""What may be sent to a server that has not asked for more."""

_MAX_RECORD: Final = 16_384 + 2048

_MAX_HEADERS: Final = 32 * 1024
"""Bytes of one call's headers, in any number of frames; gRPC itself refuses a call with half of them."""

_LEAST_HEADERS: Final = 1024
"""What a frame of headers counts for, however little it brings."""

_SMALL: Final = 256
"""Data and records of fewer bytes cost something, unless they end a request."""


class Unbearable(Exception):
    """What came is not HTTP/2, or more than any client needs to send: its connection has to end."""


class _Pieces:
    """Bytes that come in pieces, each of which begins with its length."""

    _head_bytes: int

    def __init__(self) -> None:
        self._head = b""
        self._left = 0

    def look(self, data: bytes) -> int:
        """The sum of what the pieces that begin in `data` are worth. Raises Unbearable."""
        at, end, worth = 0, len(data), 0
        while at < end:
            if self._left:
                step = min(self._left, end - at)
                self._left -= step
                at += step
                continue
            until = at + self._head_bytes - len(self._head)
            head = self._head + data[at:until]
            at = until
            if len(head) < self._head_bytes:
                self._head = head
            else:
                self._head = b""
                worth += self._begins(head)
        return worth

    def _begins(self, head: bytes) -> int:
        """Set how much of it is left, and return what it is worth."""
        raise NotImplementedError


class Records(_Pieces):
    """Of TLS, from a client: each that brings little costs something."""

    _head_bytes = 5

    def _begins(self, head: bytes) -> int:
        self._left = head[3] << 8 | head[4]
        if self._left > _MAX_RECORD:
            raise Unbearable("it does not speak TLS")
        return 0 if self._left >= _SMALL else 1


class FromClient(_Pieces):
    """Frames from a client: each costs something, unless it brings what a call is about."""

    _head_bytes = 9

    def __init__(self) -> None:
        super().__init__()
        self._preface = _PREFACE
        self._headers = 0  # bytes of those that have begun
        self._stream = b""
        self._requests = 0  # that have begun, and not ended
        self.opened = False
        """Whether it has said that it speaks HTTP/2."""

    def look(self, data: bytes) -> int:
        """What `data` costs. Raises Unbearable."""
        if self._preface:
            begun = data[: len(self._preface)]
            if not self._preface.startswith(begun):
                raise Unbearable("it does not speak HTTP/2")
            self._preface = self._preface[len(begun) :]
            data = data[len(begun) :]
        return super().look(data)

    def _begins(self, head: bytes) -> int:
        self._left = length = head[0] << 16 | head[1] << 8 | head[2]
        kind, flags = head[3], head[4]
        if length > _MAX_FRAME:
            raise Unbearable(f"a frame has {length} bytes")
        if not self.opened:
            if kind != _SETTINGS:
                raise Unbearable("it does not begin with its settings")
            self.opened = True
        if self._headers or kind in {_HEADERS, _CONTINUATION}:
            return self._of_headers(length, kind, flags, head[5:])
        if kind == _DATA:
            # What begins a request is paid for, and so is its end: but not that of a stream that is over.
            ends = flags & _END_STREAM and self._requests > 0
            self._requests -= bool(ends)
            return 0 if length >= _SMALL or ends else 1
        if kind == _PUSH_PROMISE:
            raise Unbearable("it pushes something, which only servers do")
        return 1 + length // 64

    def _of_headers(self, length: int, kind: int, flags: int, stream: bytes) -> int:
        goes_on = kind == _CONTINUATION
        if goes_on != (self._headers > 0) or (goes_on and stream != self._stream):
            raise Unbearable("headers are mixed with other frames")
        self._stream = stream
        self._requests += not (goes_on or flags & _END_STREAM)
        self._headers += max(length, _LEAST_HEADERS)
        if self._headers > _MAX_HEADERS:
            raise Unbearable(f"headers have more than {_MAX_HEADERS} bytes")
        if flags & _END_HEADERS:
            self._headers = 0
        return 1 + length // 1024


class FromServer(_Pieces):
    """Frames to a client: what it is sent lets it send as much as it takes to receive that."""

    _head_bytes = 9

    def __init__(self) -> None:
        super().__init__()
        self.streams = False
        """Whether the last bytes were of answers alone that go on, so that more are to come."""

    def look(self, data: bytes) -> int:
        """What `data` earns."""
        self.streams = True
        return super().look(data)

    def _begins(self, head: bytes) -> int:
        self._left = head[0] << 16 | head[1] << 8 | head[2]
        kind = head[3]
        if kind == _DATA:
            return 3
        self.streams = False
        return 8 if kind == _HEADERS and head[4] & _END_STREAM else 0
