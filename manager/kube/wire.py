"""The interface of a wire, which sends the bytes of the transport.

The wire may be HTTPS, a control plane in the same process, or a test's script.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from manager.kube.errors import ConfigError

LONGEST = 64 * 1024 * 1024
"""Bytes of an answer that is no list. An API server accepts objects of at most 3 MiB."""

LONGEST_LIST = 1024 * 1024 * 1024
"""Bytes of a list, or of a page: enough for 500 objects of 2 MiB."""


@dataclass(slots=True)
class WireRequest:
    """A complete request; a wire adds only credentials and protocol headers.

    Attributes:
        method: the HTTP method in capitals.
        path: absolute path with its query string, percent-encoded, without the server's own prefix.
        headers: shared between requests; a wire must not change them.
        body: the bytes to send, or None.
        stream: the response may be long-lived; it does not count as one of the connections for requests.
        permit: called right before the request is sent, after every wait for credentials or a connection;
            several times if there are several such moments. If it raises, the caller gets the exception, and
            the server gets no complete request. None always permits the request.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None = None
    stream: bool = False
    permit: Callable[[], None] | None = None


class WireResponse(Protocol):
    """An answer with status and headers; its body is not read yet."""

    @property
    def status(self) -> int:
        """Return the HTTP status code."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers; look-ups ignore the case of names."""

    async def read(self, limit: int = LONGEST) -> bytes:
        """Return the whole body.

        Raises `ConnectionLost` if the body is incomplete, and `ProtocolError` as soon as it is longer than
        `limit`.
        """

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body in chunks of any size on arrival; raise `ConnectionLost` if it is incomplete."""


class Fetched(NamedTuple):
    """An answer that was read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class WebSocket(Protocol):
    """An open WebSocket to an API server."""

    @property
    def protocol(self) -> str | None:
        """Return the subprotocol that the server chose."""

    async def send_bytes(self, data: bytes) -> None:
        """Send a binary message.

        Raises:
            OSError: the connection is gone.
            Fenced: the process may no longer write.
        """

    async def receive_message(self) -> bytes | None:
        """Return the next message; None if the server has closed the WebSocket normally.

        Raises:
            ProtocolError: the message is too long or invalid.
            ConnectionLost: the connection broke.
        """


class Wire(Protocol):
    """A sender of requests to one API server; subclasses without a network support no WebSockets.

    A wire sends each request at most once, except that it may repeat a request after the answer 401 and a
    renewal of the credentials. Only the opening of a connection has a deadline; otherwise, a caller that has
    waited long enough cancels the request.
    """

    @property
    def host(self) -> str:
        """Return the API server's host and port for metrics."""

    def exchange(self, request: WireRequest) -> AbstractAsyncContextManager[WireResponse]:
        """Return a context manager: entry waits for the answer's head, exit frees the connection.

        Leaving before the body is read to its end closes the connection.

        Raises:
            Unreachable: no connection could be opened, nothing was sent.
            ConnectionLost: the connection broke; the server may have acted on the request.
        """

    async def fetch(self, request: WireRequest, longest: int) -> Fetched:
        """Send a request and read its answer; raise the errors of `exchange` and `read`."""
        async with self.exchange(request) as response:
            return Fetched(response.status, response.headers, await response.read(longest))

    def abort(self) -> None:
        """Drop every connection at once, so that no byte that is still on its way is delivered.

        All exchanges in progress, even those that still wait for a connection, fail with `ConnectionLost` or
        `Unreachable`. No request that began earlier is sent afterwards; later ones open new connections.
        """

    async def aclose(self) -> None:
        """Drop all connections; the wire cannot be used afterwards."""

    def websocket(
        self,
        request: WireRequest,  # noqa: ARG002
        protocols: Sequence[str],  # noqa: ARG002
        *,
        longest: int,  # noqa: ARG002
    ) -> AbstractAsyncContextManager[WebSocket]:
        """Open a WebSocket; `request.permit` is called before the handshake and before each message.

        `abort` drops the WebSocket like every connection. A WebSocket does not count as one of the
        connections for requests.

        Raises:
            ApiError: the server refused the WebSocket.
            ConfigError: the wire does not support WebSockets.
            ProtocolError: the handshake, or the chosen protocol, is invalid.
            Unreachable, ConnectionLost: as in `exchange`.
        """
        raise ConfigError("this connection has no network, so it does not support WebSockets")
