"""The interface between the transport and a carrier of its bytes.

The carrier may be HTTPS, a control plane in the same process, or a test's script.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from manager.kube.errors import ConfigError

LONGEST = 64 * 1024 * 1024
"""Bytes of an answer that is no list. An object has 3 MB at most, unless etcd is told otherwise."""

LONGEST_LIST = 1024 * 1024 * 1024
"""Bytes of a list, or of a page of one: 500 objects that are as large as they can be, and a quarter more."""


@dataclass(slots=True)
class WireRequest:
    """Complete request; a wire adds only credentials and what its protocol needs.

    Attributes:
        method: the HTTP method in capitals.
        path: absolute path with its query string, percent-encoded, without the server's own prefix.
        headers: shared between requests; a wire must not change it.
        body: the bytes to send, or None.
        stream: the response may be long-lived; it takes up none of the connections for other requests.
        permit: called right before the request leaves, after every wait for credentials or a connection;
            several times if there are several such moments. If it raises, the caller gets the exception, and
            no request that a server would act on is sent. None permits it.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None = None
    stream: bool = False
    permit: Callable[[], None] | None = None


class WireResponse(Protocol):
    """An answer whose status and headers are there; its body is still to be read."""

    @property
    def status(self) -> int:
        """Return the HTTP status code."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers; look-ups ignore the case of names."""

    async def read(self, limit: int = LONGEST) -> bytes:
        """Return the whole body.

        Raises `ConnectionLost` if it breaks off, and `ProtocolError` as soon as it is longer than `limit`.
        """

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives, in chunks of any size; raise `ConnectionLost` if it breaks off."""


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
        """Return the next message, None when the server has closed in good order.

        Raises:
            ProtocolError: it is too long.
            ConnectionLost: the connection broke.
        """


class Wire(Protocol):
    """Carrier of requests to one API server; subclasses without a network carry no WebSockets.

    A wire sends each request at most once, except that it may repeat one that the server refused with 401
    after renewing the credentials. It sets no deadline beyond that for making a connection: a caller that has
    waited long enough cancels.
    """

    @property
    def host(self) -> str:
        """Return the API server's host and port as metrics show them."""

    def exchange(self, request: WireRequest) -> AbstractAsyncContextManager[WireResponse]:
        """Send a request; entering waits for the answer's head, leaving gives the connection back.

        Leaving before the body is read to its end drops the connection.

        Raises:
            Unreachable: no connection could be made, nothing was sent.
            ConnectionLost: the connection broke; the server may have acted on the request.
        """

    async def fetch(self, request: WireRequest, longest: int) -> Fetched:
        """Send a request and read its answer; raise the errors of `exchange` and `read`."""
        async with self.exchange(request) as response:
            return Fetched(response.status, response.headers, await response.read(longest))

    def abort(self) -> None:
        """Drop every connection at once, so that no byte that is still on its way arrives.

        Exchanges in progress fail with `ConnectionLost`, those that wait for a connection included:
        nothing that was asked for before is sent after. Requests made later connect anew.
        """

    async def aclose(self) -> None:
        """Close all connections in good order; the wire is of no use after."""

    def websocket(
        self,
        request: WireRequest,  # noqa: ARG002
        protocols: Sequence[str],  # noqa: ARG002
        *,
        longest: int,  # noqa: ARG002
    ) -> AbstractAsyncContextManager[WebSocket]:
        """Open a WebSocket; `request.permit` is asked before the handshake and before each message.

        `abort` drops it like every other connection. It takes up none of the connections for requests.

        Raises:
            ApiError: the server refused it.
            ConfigError: the wire carries none.
            ProtocolError: the handshake, or the chosen protocol, is wrong.
            Unreachable, ConnectionLost: as in `exchange`.
        """
        raise ConfigError("there is no network here that a WebSocket could go over")
