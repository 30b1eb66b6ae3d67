"""An answer of a server of ours: whole, or piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus

from manager.http.request import Request

_PIECE = 64 * 1024
"""Bytes that are sent at once: of what is written, TLS makes a copy, whether or not the client takes any."""


class Response:
    """An answer that is whole from the start."""

    def __init__(
        self,
        *,
        status: int = HTTPStatus.OK,
        text: str | None = None,
        body: bytes | bytearray = b"",
        content_type: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`text` instead of a body is UTF-8, and plain if `content_type` says nothing else."""
        self.status = int(status)
        self.headers = dict(headers or {})
        if text is not None:
            body, content_type = text.encode(), content_type or "text/plain; charset=utf-8"
        if content_type:
            self.headers["Content-Type"] = content_type
        self._body = body

    async def send(self, request: Request) -> None:
        """Send it, if that has not been done. Raises `ConnectionError` when the client is gone."""
        if request.answer is not None:
            self._is_only(request)
            return
        await self._begin(request, {"Content-Length": str(len(self._body))})
        if request.method != "HEAD":
            for start in range(0, len(self._body), _PIECE):
                await request.sender.write(self._body[start : start + _PIECE])

    def _is_only(self, request: Request) -> bool:
        """Whether no other answer has begun: one whose end is missing takes the connection with it."""
        if request.answer is not self:
            request.transport.abort()
        return request.answer is self

    async def _begin(self, request: Request, framing: Mapping[str, str]) -> None:
        if request.sender.is_last(request):
            request.keeps_alive = False
        headers = {**self.headers, **framing, "Date": formatdate(usegmt=True)}
        if not request.keeps_alive:
            headers["Connection"] = "close"
        elif request.version == "1.0":
            headers["Connection"] = "keep-alive"
        lines = [f"{name}: {value}" for name, value in headers.items()]
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a header has more than one line")
        head = "\r\n".join([f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}", *lines, "", ""])
        request.answer = self
        await request.sender.write(head.encode(errors="surrogateescape"))


class Stream(Response):
    """An answer that is made while it is sent, to an end that nobody knows yet."""

    _in_chunks = False

    async def begin(self, request: Request) -> None:
        """Send the head, before the first piece. Raises `ConnectionError` when the client is gone."""
        self._in_chunks = request.version != "1.0"
        if not self._in_chunks:
            request.keeps_alive = False  # its end is the connection's
        await self._begin(request, {"Transfer-Encoding": "chunked"} if self._in_chunks else {})

    async def write(self, request: Request, piece: bytes) -> None:
        """Send a piece, and return when the client has room for more."""
        if piece and request.method != "HEAD":
            await request.sender.write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._in_chunks else piece)

    async def send(self, request: Request) -> None:
        """Send what there is to send yet: the end."""
        if request.answer is None:
            await self.begin(request)
        if self._is_only(request) and self._in_chunks and request.method != "HEAD":
            await request.sender.write(b"0\r\n\r\n")
