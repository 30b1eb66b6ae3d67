"""A request and its answer, whatever carries them: HTTPS, or a call within the process."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol

import orjson

from devcluster.errors import StatusError

__all__ = ["ApiRequest", "ApiResponse", "ConnectionCut", "Handler", "User", "WebSocket"]


class WebSocket(Protocol):
    """An open WebSocket, as its server has it."""

    async def receive(self) -> bytes | None:
        """Return the next message, None when the client sends no more."""
        ...

    async def send(self, message: bytes) -> None:
        """Send a binary message; raises ConnectionError when the client has gone."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True, kw_only=True)
class ApiRequest:
    """One request.

    `path` is decoded and without the query; `query` keeps every value of a parameter, in order; the names in
    `headers` are in lower case. `user` is set by authentication.
    """

    method: str
    path: str
    query: Mapping[str, list[str]] = dataclasses.field(default_factory=dict)
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: bytes = b""
    user: User | None = None
    client_certificate: Any = None
    """What TLS verified: the subject as `{"CN": [...], "O": [...]}`, None without one.

    Its fingerprint, if known, is in `X509SHA256`.
    """

    def option(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        values = self.query.get(name)
        return values[0] if values else default


@dataclasses.dataclass(slots=True, kw_only=True)
class ApiResponse:
    """Its answer: a body, or a stream of chunks, each sent as it comes.

    A stream's iterator is closed (`aclose`) when the client goes away. `warnings` become `Warning` headers.
    With `websocket`, the connection goes on as a WebSocket until that function returns; it is cancelled when
    the client goes away.
    """

    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    warnings: list[str] = dataclasses.field(default_factory=list)
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None
    websocket: Callable[[WebSocket], Awaitable[None]] | None = None

    @classmethod
    def json(cls, value: Any, *, status: int = 200) -> ApiResponse:
        """Any JSON value."""
        return cls(status=status, body=orjson.dumps(value) + b"\n")

    @classmethod
    def failure(cls, error: StatusError) -> ApiResponse:
        """The answer that `error` stands for."""
        answer = cls.json(error.to_status(), status=error.code)
        if error.retry_after is not None:
            answer.headers["Retry-After"] = str(error.retry_after)
        return answer


class ConnectionCut(Exception):
    """Raised in place of an answer, or from a stream: whatever carries the answer must break off at once."""


Handler = Callable[[ApiRequest], Awaitable[ApiResponse]]
"""What answers requests."""
