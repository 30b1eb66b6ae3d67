"""The wire that is HTTP, to a real API server."""

from __future__ import annotations

import os
import ssl
from http import HTTPStatus
from typing import TYPE_CHECKING

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from manager.kube.body import Body
from manager.kube.connections import CONNECT_TIMEOUT, Connections, permit
from manager.kube.errors import ConnectionLost, Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from manager.kube.config import ClusterConfig
    from manager.kube.wire import WireRequest

CONNECTIONS = 128
"""Connections in use at once, streams aside; more than any sensible number of workers."""

_HEADER_SETS = 64
"""Sets of headers remembered."""

_RESET = "connections were aborted"


class HttpWire:
    """Implements `manager.kube.wire.Wire` over HTTP/1.1 with keep-alive."""

    def __init__(self, config: ClusterConfig, *, connections: int = CONNECTIONS) -> None:
        """A wire to the configured API server; connects when it is first used.

        Args:
            config: where the server is and who to be there.
            connections: how many requests may be under way at once, streams aside; more wait.
        """
        self._config = config
        self._limit = connections
        server = config.server
        self._base = str(server).rstrip("/")
        self._host = f"{server.host_subcomponent}:{server.port}"
        self._connections: Connections | None = None
        self._reset: list[Connections] = []
        self._headers: dict[int, tuple[Mapping[str, str], str | None, CIMultiDict[str]]] = {}

    @property
    def host(self) -> str:
        """The API server's host and port."""
        return self._host

    def exchange(self, request: WireRequest) -> _Exchange:
        """See `Wire.exchange`."""
        return _Exchange(self._send, request, self._open_connections())

    def abort(self) -> None:
        """See `Wire.abort`."""
        if self._connections is not None:
            self._connections.reset()
            self._reset.append(self._connections)
            self._connections = None

    async def aclose(self) -> None:
        """See `Wire.aclose`."""
        if self._connections is not None:
            self._reset.append(self._connections)
            self._connections = None
        while self._reset:
            await self._reset.pop().aclose()

    def _open_connections(self) -> Connections:
        if self._connections is None:
            self._connections = Connections(self._limit)
        return self._connections

    async def _send(self, request: WireRequest, connections: Connections) -> aiohttp.ClientResponse:
        """Send a request, and once more if the server rejects credentials that can be renewed."""
        authorization = await self._config.authorization()
        response = await self._send_as(authorization, request, connections)
        if response.status != HTTPStatus.UNAUTHORIZED:
            return response
        self._config.tls_failed()
        try:
            renewed = await self._config.authorization(rejected=authorization)
        except BaseException:
            response.close()
            raise
        if renewed == authorization:
            return response
        response.close()
        return await self._send_as(renewed, request, connections)

    async def _send_as(
        self, authorization: str | None, request: WireRequest, connections: Connections
    ) -> aiohttp.ClientResponse:
        context = await self._config.ssl_context()
        if connections.is_reset:
            raise ConnectionLost(_RESET)
        permit.set(request.permit)
        body = None if request.body is None else Body(request.body, request.permit)
        try:
            return await connections.session.request(
                request.method,
                URL(self._base + request.path, encoded=True),
                headers=self._prepared(request.headers, authorization),
                data=body,
                ssl=True if context is None else context,
                server_hostname=self._config.tls_server_name,
                proxy=self._config.proxy,
                allow_redirects=False,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            if isinstance(error, aiohttp.ClientSSLError):
                self._config.tls_failed()
            raise Unreachable(f"cannot connect to {self._host}: {_reason(error)}") from error
        except aiohttp.ClientHttpProxyError as error:
            raise Unreachable(f"the proxy answered {error.status} {error.message}") from error
        except aiohttp.ClientError as error:
            if body is not None and body.refused is not None:
                raise body.refused from None
            raise _lost(error) from error

    def _prepared(self, headers: Mapping[str, str], authorization: str | None) -> CIMultiDict[str]:
        """The headers of a request, complete; a transport has few sets of them and shares those."""
        known = self._headers.get(id(headers))
        if known is not None and known[0] is headers and known[1] == authorization:
            return known[2]
        prepared = CIMultiDict(headers)
        prepared["Accept-Encoding"] = "identity"
        if authorization is not None:
            prepared["Authorization"] = authorization
        prepared.extend(self._config.headers)
        if len(self._headers) >= _HEADER_SETS:
            self._headers.clear()
        self._headers[id(headers)] = (headers, authorization, prepared)
        return prepared


class _Exchange:
    """One request and its answer; holds one of the free connections unless it is a stream."""

    __slots__ = ("_connections", "_request", "_response", "_send")

    def __init__(
        self,
        send: Callable[..., Awaitable[aiohttp.ClientResponse]],
        request: WireRequest,
        connections: Connections,
    ) -> None:
        self._send = send
        self._request = request
        self._connections = connections
        self._response: aiohttp.ClientResponse | None = None

    async def __aenter__(self) -> _Response:
        if not self._request.stream:
            await self._connections.free.acquire()
        try:
            self._response = await self._send(self._request, self._connections)
        except BaseException:
            self._leave()
            raise
        return _Response(self._response)

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        if not self._request.stream:
            self._connections.free.release()
        response = self._response
        if response is not None and (connection := response.connection) is not None:
            # Not read to its end: nobody wants the rest, and there may be no peer left to say so to.
            transport = connection.transport
            response.close()
            if transport is not None:
                transport.abort()


class _Response:
    """Implements `manager.kube.wire.WireResponse`."""

    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = response.headers

    async def read(self) -> bytes:
        try:
            return await self._response.read()
        except aiohttp.ClientError as error:
            raise _lost(error) from error

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except aiohttp.ClientError as error:
            raise _lost(error) from error


def _lost(error: aiohttp.ClientError) -> ConnectionLost:
    if isinstance(error, aiohttp.ClientPayloadError):
        return ConnectionLost("the connection broke in the middle of the answer")
    return ConnectionLost(f"the connection broke: {str(error) or type(error).__name__}")


def _reason(error: aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError) -> str:
    """Why no connection could be made, in as few words as say it."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no answer within {CONNECT_TIMEOUT:g} s"
    cause = error.os_error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not to be trusted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"TLS failed: {cause.reason or cause}"
    # The errno of a name that was not found is the resolver's own.
    if cause.errno and cause.errno > 0 and not isinstance(error, aiohttp.ClientConnectorDNSError):
        return os.strerror(cause.errno)
    if isinstance(cause, ConnectionError) and not str(cause):
        # What asyncio makes of a connection that ends in the middle of the handshake.
        return "it hung up in the TLS handshake"
    return cause.strerror or str(cause) or type(cause).__name__
