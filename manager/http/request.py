"""One request to a server of ours: its head, parsed, and its body, as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url
from multidict import CIMultiDict, MultiDict, MultiMapping

_VERSIONS = {"1.0", "1.1"}

_LINES = 100
"""Lines of a head: clients of ours send some ten. Each may take a hundred times its bytes in memory."""

_LONGEST_TARGET = 2048
"""Bytes of path and query: nothing interrupts their decoding."""

_FIELDS = 100
"""Fields of a query."""

_LONGEST_OPTIONS = 256
"""Bytes of the Connection header; after a longer one the connection is closed."""

_AHEAD = 64 * 1024
"""Bytes of a body that are taken before its page has read them."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class NoRequest(ValueError):
    """What came is no request. The message says why, and may quote what came."""


class Sender(Protocol):
    """The connection that a request came on, as its answer needs it."""

    async def write(self, data: bytes | bytearray) -> None:
        """Return when the client has room for more. Raises `ConnectionError` when it is gone."""

    def is_last(self, request: Request) -> bool:
        """Whether the answer to this request is the last one here."""


class Request:
    """A request whose head has come."""

    def __init__(self, head: bytes, transport: asyncio.Transport, sender: Sender) -> None:
        """`head` is all before the body, with the empty line. Raises `NoRequest`."""
        self.transport = transport
        self.sender = sender
        self.headers = CIMultiDict[str]()
        self.answer: object = None
        """What has been sent, in part at least: there can be no other."""
        self.match_info: Mapping[str, str] = {}
        """The variable parts of its path, by name."""
        self._url = b""
        self._parse(head)
        self.content_length = self._length()
        """Bytes of the body, 0 where the head does not say how many."""
        self.in_chunks = "Transfer-Encoding" in self.headers
        """Whether the body comes in chunks, which nobody here reads."""
        expects = self.headers.get("Expect", "").lower() == "100-continue"
        self.body = Body(0 if self.in_chunks else self.content_length, transport, expects=expects)

    def _parse(self, head: bytes) -> None:
        if head.count(b"\n") > _LINES:
            raise NoRequest("more lines than any client sends")
        parser = HttpRequestParser(self)
        upgrades = False
        try:
            parser.feed_data(head)
        except HttpParserUpgrade:
            upgrades = True  # to nothing that is spoken here
        except HttpParserError as error:
            raise NoRequest(str(error)) from None
        self.method = parser.get_method().decode()
        self.version = parser.get_http_version()
        if self.version not in _VERSIONS:
            raise NoRequest("another version of HTTP")
        connection = ",".join(self.headers.getall("Connection", ()))
        options = {each.strip().lower() for each in connection[:_LONGEST_OPTIONS].split(",")}
        wished = "close" not in options and (self.version == "1.1" or "keep-alive" in options)
        self.keeps_alive = wished and len(connection) <= _LONGEST_OPTIONS and not upgrades
        """Whether the client may ask again on this connection."""
        self.target = _target(self._url)
        """Path and query as they came."""
        if len(self.target) > _LONGEST_TARGET or self.query_string.count("&") >= _FIELDS:
            raise NoRequest("a longer target than anything here has")

    def _length(self) -> int:
        try:
            return int(self.headers.get("Content-Length", "0"))
        except ValueError:  # thousands of zeros, which the parser takes
            raise NoRequest("a length that cannot be read") from None

    # What the parser calls.

    def on_url(self, url: bytes) -> None:
        """The target, or a part of it."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One line."""
        self.headers.add(name.decode("latin-1"), value.decode(errors="surrogateescape"))

    @property
    def is_complete(self) -> bool:
        """Whether all of it has come, as far as anybody can tell."""
        return self.body.is_whole() and not self.in_chunks

    # What pages ask for.

    @property
    def raw_path(self) -> str:
        """The path as it came."""
        return self.target.partition("?")[0]

    @property
    def path(self) -> str:
        """The path, decoded."""
        return unquote(self.raw_path)

    @property
    def query_string(self) -> str:
        """The query as it came."""
        return self.target.partition("?")[2]

    @cached_property
    def query(self) -> MultiMapping[str]:
        """The fields of the query, decoded."""
        return MultiDict(parse_qsl(self.query_string, keep_blank_values=True))

    @property
    def remote(self) -> str | None:
        """The client's address."""
        peer = self.get_extra_info("peername")
        return str(peer[0]) if isinstance(peer, tuple) else None

    def get_extra_info(self, name: str) -> Any:
        """About the connection, as its transport has it."""
        return self.transport.get_extra_info(name)


class Body:
    """The body of a request. More than a little of it is taken from the connection only once it is read."""

    def __init__(self, length: int, transport: asyncio.Transport, *, expects: bool) -> None:
        """`expects`: its sender waits to be told to go on."""
        self._left = length
        self._transport = transport
        self._expects = expects
        self._kept = bytearray()
        self._is_read = False
        self._paused = False
        self._whole = asyncio.Event()
        if not length:
            self._whole.set()

    def is_whole(self) -> bool:
        """Whether all of it has come."""
        return self._whole.is_set()

    def feed(self, data: bytes) -> None:
        """A part has come."""
        self._left -= len(data)
        self._kept += data
        if not self._left:
            self._whole.set()
        elif not self._is_read and len(self._kept) > _AHEAD:
            self._paused = True
            self._transport.pause_reading()  # again, where the connection has meanwhile gone on

    async def read(self) -> bytearray:
        """All of it; to be called once."""
        self._is_read = True
        if self._paused:
            self._transport.resume_reading()
        if self._expects and not self.is_whole():
            self._transport.write(_CONTINUE)
        await self._whole.wait()
        whole, self._kept = self._kept, bytearray()
        return whole


def _target(url: bytes) -> str:
    """Of a target in any form."""
    if url.startswith(b"/"):
        return url.decode(errors="replace").partition("#")[0]
    try:
        parsed = parse_url(url)
    except HttpParserError as error:
        raise NoRequest(str(error)) from None
    query = b"?" + parsed.query if parsed.query else b""
    return ((parsed.path or b"/") + query).decode(errors="replace")
