"""HTTP requests and responses without a transport: they come by HTTPS, or from a call in this process."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol

import orjson

from devcluster.errors import StatusError


class WebSocket(Protocol):
    """Server's side of an open WebSocket."""

    async def receive(self) -> bytes | None:
        """Return the next message, or None after the client's last message."""
        ...

    async def send(self, message: bytes) -> None:
        """Send a binary message; raise ConnectionError if the client has disconnected."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class User:
    """Authenticated user of a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def to_object(self) -> dict[str, Any]:
        """Return the user as a UserInfo object, as in a TokenReview."""
        info: dict[str, Any] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in sorted(self.extra.items())}
        return info


@dataclasses.dataclass(slots=True, kw_only=True)
class ApiRequest:
    """Request to the API server.

    `path` is decoded and has no query. `query` has every value of a parameter, in order. Names in `headers`
    are in lower case. Authentication sets `user`.
    """

    method: str
    path: str
    query: Mapping[str, list[str]] = dataclasses.field(default_factory=dict)
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: bytes = b""
    user: User | None = None
    client_certificate: Any = None
    """The verified client certificate's subject as `{"CN": [...], "O": [...]}`, or None.

    `X509SHA256` is the certificate's fingerprint, if known.
    """

    def option(self, name: str) -> str:
        """Return the first value of a query parameter, or "" without a value."""
        values = self.query.get(name)
        return values[0] if values else ""


@dataclasses.dataclass(slots=True, kw_only=True)
class ApiResponse:
    """Response of the API server: a body, or a stream whose chunks are sent as they come.

    The server closes a stream's iterator (`aclose`) when the client disconnects. `warnings` become `Warning`
    headers. With `websocket`, the connection becomes a WebSocket until that function returns; the server
    cancels the function when the client disconnects.
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
        return cls(status=status, body=orjson.dumps(value) + b"\n")

    @classmethod
    def failure(cls, error: StatusError) -> ApiResponse:
        answer = cls.json(error.to_status(), status=error.code)
        if error.retry_after is not None:
            answer.headers["Retry-After"] = str(error.retry_after)
        return answer


class ConnectionCut(Exception):
    """Error, raised instead of a response or within a stream, that makes the transport cut the connection."""


Handler = Callable[[ApiRequest], Awaitable[ApiResponse]]
