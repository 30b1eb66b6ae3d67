"""The wire that is HTTP, to a real API server."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib import import_module

from yarl import URL

from manager.kube.answer import Answer
from manager.kube.config import ClusterConfig
from manager.kube.connection import Connection
from manager.kube.dial import proxy_authorization
from manager.kube.errors import ConfigError, Unauthorized, Unreachable
from manager.kube.names import Names
from manager.kube.pool import Connections
from manager.kube.tls import in_thread
from manager.kube.wire import WebSocket, WireRequest

CONNECTIONS = 128
"""Connections in use at once, streams aside; more than any sensible number of workers."""

_HEADER_SETS = 64
"""Sets of headers remembered."""

_UNAUTHORIZED = 401

_is_line = re.compile(r"[^\r\n\0]*").fullmatch


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
        self._names = Names()
        server = config.server
        self._host = f"{server.host_subcomponent}:{server.port}"
        # A proxy for plain HTTP wants to know where a request is to go.
        to_proxy = config.proxy is not None and config.proxy.scheme != "socks5" and server.scheme == "http"
        self._prefix = (str(server) if to_proxy else server.raw_path).rstrip("/")
        self._connections: Connections | None = None
        self._reset: list[Connections] = []
        self._headers: dict[int, tuple[Mapping[str, str], str | None, bytes]] = {}

    @property
    def host(self) -> str:
        """The API server's host and port."""
        return self._host

    def exchange(self, request: WireRequest) -> _Exchange:
        """See `Wire.exchange`."""
        return _Exchange(self, self._config, request, self._current())

    @asynccontextmanager
    async def websocket(
        self, request: WireRequest, protocols: Sequence[str], *, longest: int
    ) -> AsyncIterator[WebSocket]:
        """See `WebSocketWire.websocket`."""
        # In a thread: it imports aiohttp's client.
        connect = (await in_thread(lambda: import_module("manager.kube.websocket"))).connect
        config, connections, permit = self._config, self._current(), request.permit or _allow
        if self._prefix and not self._prefix.startswith("/"):
            raise ConfigError("a proxy for plain HTTP carries no WebSocket: use TLS to the API server")
        url = URL(f"{str(config.server).rstrip('/')}{request.path}", encoded=True)

        async def dial() -> asyncio.Transport:
            connection = await self.open(connections, await config.ssl_context())
            try:
                permit()
                return connection.hand_over()
            except BaseException:
                connection.abort()
                raise

        def opening(authorization: str | None) -> AbstractAsyncContextManager[WebSocket]:
            headers = [*request.headers.items(), *config.headers]
            if authorization is not None:
                headers.append(("Authorization", authorization))
            opened: AbstractAsyncContextManager[WebSocket] = connect(
                url, headers, dial=dial, permit=permit, protocols=protocols, longest=longest
            )
            return opened

        async with AsyncExitStack() as stack:
            authorization = await config.authorization()
            try:
                socket = await stack.enter_async_context(opening(authorization))
            except Unauthorized:
                config.tls_failed()
                renewed = await config.authorization(rejected=authorization)
                if renewed == authorization:
                    raise
                socket = await stack.enter_async_context(opening(renewed))
            yield socket

    async def open(self, connections: Connections, context: ssl.SSLContext | None) -> Connection:
        """Make a connection; a certificate that is refused has the TLS files looked at anew."""
        try:
            return await connections.open(context)
        except Unreachable as error:
            if isinstance(error.__cause__, ssl.SSLError):
                self._config.tls_failed()
            raise

    def _current(self) -> Connections:
        if self._connections is None:
            self._connections = Connections(self._config, self._names, self._limit)
        return self._connections

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

    def head(self, request: WireRequest, authorization: str | None) -> bytes:
        """Request line and headers, complete."""
        target = self._prefix + request.path
        if not target or not target.isascii() or not target.isprintable() or " " in target:
            raise ValueError(f"{request.path!r} is not the percent-encoded path of a request")
        line = f"{request.method} {target} HTTP/1.1\r\n".encode("ascii")
        headers = self._encoded(request.headers, authorization)
        if request.body is None and request.method in {"GET", "DELETE"}:
            return line + headers + b"\r\n"
        return b"%b%bContent-Length: %d\r\n\r\n" % (line, headers, len(request.body or b""))

    def _encoded(self, headers: Mapping[str, str], authorization: str | None) -> bytes:
        """All headers but those about the body; a transport has few sets of them and shares those."""
        known = self._headers.get(id(headers))
        if known is not None and known[0] is headers and known[1] == authorization:
            return known[2]
        host = self._config.server.host_port_subcomponent or self._host
        complete = {"Host": host, **headers, "Accept-Encoding": "identity"}
        if authorization is not None:
            complete["Authorization"] = authorization
        proxy = self._config.proxy
        if proxy is not None and self._config.server.scheme == "http":
            named = proxy_authorization(proxy)
            if named is not None:
                complete["Proxy-Authorization"] = named
        lines = [f"{name}: {value}" for name, value in (*complete.items(), *self._config.headers)]
        for line in lines:
            if not _is_line(line):
                raise ValueError(f"the header {line.partition(':')[0]} has more than one line")
        encoded = "".join(f"{line}\r\n" for line in lines).encode()
        if len(self._headers) >= _HEADER_SETS:
            self._headers.clear()
        self._headers[id(headers)] = (headers, authorization, encoded)
        return encoded


class _Exchange:
    """One request and its answer; holds one of the free connections unless it is a stream."""

    __slots__ = ("_config", "_connection", "_connections", "_request", "_wire")

    def __init__(
        self, wire: HttpWire, config: ClusterConfig, request: WireRequest, connections: Connections
    ) -> None:
        self._wire = wire
        self._config = config
        self._request = request
        self._connections = connections
        self._connection: Connection | None = None

    async def __aenter__(self) -> Answer:
        if not self._request.stream and not self._connections.take_turn():
            await self._connections.wait_turn()
        try:
            config = self._config
            at_hand = config.at_hand()
            header = await config.authorization() if at_hand is None else at_hand[0]
            context = await config.ssl_context() if at_hand is None else at_hand[1]
            answer = await self._ask(header, context)
            if answer.status == _UNAUTHORIZED:
                config.tls_failed()
                renewed = await config.authorization(rejected=header)
                if renewed != header:
                    self._give_back()
                    answer = await self._ask(renewed, await config.ssl_context())
        except BaseException:
            await self.__aexit__()
            raise
        return answer

    async def __aexit__(self, *_: object) -> None:
        self._give_back()
        if not self._request.stream:
            self._connections.give_turn_back()

    def _ask(self, authorization: str | None, context: ssl.SSLContext | None) -> Awaitable[Answer]:
        request = self._request
        head = self._wire.head(request, authorization)
        connection = self._connection = self._connections.take_idle(context)
        if connection is None:
            return self._ask_anew(head, context)
        return connection.ask(head, request.body or b"", request.permit)

    async def _ask_anew(self, head: bytes, context: ssl.SSLContext | None) -> Answer:
        request = self._request
        self._connection = await self._wire.open(self._connections, context)
        return await self._connection.ask(head, request.body or b"", request.permit)

    def _give_back(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._connections.give_back(connection)


def _allow() -> None:
    """Permit what nothing forbids."""
