"""A request and its response, independent of the transport: HTTPS, or a call within the process."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol

import orjson

from devcluster.errors import StatusError


class WebSocket(Protocol):
    """An open WebSocket, from the server's side."""

    async def receive(self) -> bytes | None:
        """Return the next message, or None when the client sends no more."""
        ...

    async def send(self, message: bytes) -> None:
        """Send a binary message; raise ConnectionError if the client has disconnected."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class User:
    """An authenticated user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def to_object(self) -> dict[str, Any]:
        """Return the UserInfo object, as in reviews."""
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
    """A request to the API server.

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

    `X509SHA256` is its fingerprint, if known.
    """

    def option(self, name: str) -> str:
        """Return the first value of a query parameter."""
        values = self.query.get(name)
        return values[0] if values else ""


@dataclasses.dataclass(slots=True, kw_only=True)
class ApiResponse:
    """A response of the API server: a body, or a stream whose chunks are sent at once.

    The server closes a stream's iterator (`aclose`) when the client goes away. `warnings` become `Warning`
    headers. With `websocket`, the connection continues as a WebSocket until that function returns; the server
    cancels it when the client goes away.
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
        """Build a response with a JSON value."""
        return cls(status=status, body=orjson.dumps(value) + b"\n")

    @classmethod
    def failure(cls, error: StatusError) -> ApiResponse:
        """Build the response for `error`."""
        answer = cls.json(error.to_status(), status=error.code)
        if error.retry_after is not None:
            answer.headers["Retry-After"] = str(error.retry_after)
        return answer


class ConnectionCut(Exception):
    """An error in place of a response or within a stream, for which the transport must cut the connection."""


Handler = Callable[[ApiRequest], Awaitable[ApiResponse]]
"""A handler of requests."""
