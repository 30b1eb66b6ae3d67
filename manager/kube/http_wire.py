"""The wire over HTTP, to a real API server: requests, and the pool of their connections."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import struct
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from weakref import WeakSet

from aiohappyeyeballs import AddrInfoType

from manager.kube.config import ClusterConfig
from manager.kube.connection import Answer, Connection
from manager.kube.credentials import NO_CREDENTIALS
from manager.kube.dial import Dialer, proxy_authorization
from manager.kube.errors import ConfigError, ConnectionLost, Unreachable
from manager.kube.wire import Fetched, WebSocket, Wire, WireRequest
from manager.util.loop import in_thread

CONNECTIONS = 128
"""Connections in use at the same time, without streams; more than any sensible number of workers."""

KEEP_ALIVE = 30.0
"""Seconds for which an idle connection is kept: well below the 90 s of an API server, which might otherwise
close the connection just when a request begins."""

_KEEPALIVE = {
    "TCP_KEEPIDLE": 15,  # seconds of silence before the first keep-alive probe
    "TCP_KEEPALIVE": 15,  # the same on macOS
    "TCP_KEEPINTVL": 5,  # seconds between two probes
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 30_000,  # milliseconds for which sent bytes may stay unacknowledged
}

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""A struct linger: on, with no time to deliver buffered bytes."""

_HEADER_SETS = 64
"""The number of header sets that are cached."""

_UNAUTHORIZED = 401

_is_target = re.compile(r"[!-~]+").fullmatch
_is_line = re.compile(r"[^\r\n\0]*").fullmatch


class HttpWire(Wire):
    """`manager.kube.wire.Wire` over HTTP/1.1 with keep-alive."""

    def __init__(self, config: ClusterConfig, *, connections: int = CONNECTIONS) -> None:
        """Create a wire to the configured API server; it connects at its first use.

        Args:
            config: the server's address and this client's identity.
            connections: maximum of concurrent requests, without streams; further requests wait.
        """
        self._config = config
        self._dialer = Dialer(config)
        server, proxy = config.server, config.proxy
        self._host = f"{server.host_subcomponent}:{server.port}"
        # A proxy for plain HTTP needs the full URL in each request.
        self._to_proxy = proxy is not None and proxy.scheme != "socks5" and server.scheme == "http"
        self._prefix = (str(server) if self._to_proxy else server.raw_path).rstrip("/")
        self._headers: dict[int, tuple[Mapping[str, str], str | None, bytes]] = {}
        self._turns = asyncio.Semaphore(connections)
        # A request that began before the last abort has a lower number, and gets no connection any more.
        self._aborts = 0
        self._is_closed = False
        self._idle: deque[Connection] = deque()
        self._open: WeakSet[Connection] = WeakSet()
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def host(self) -> str:
        return self._host

    async def fetch(self, request: WireRequest, longest: int) -> Fetched:
        """Send a request and read its answer, without a context manager, which would cost more time."""
        begun = self._aborts
        await self._turns.acquire()
        try:
            connection, answer = await self._ask(request, begun)
            try:
                return Fetched(answer.status, answer.headers, await answer.read(longest))
            finally:
                self._give_back(connection)
        finally:
            self._turns.release()

    @asynccontextmanager
    async def exchange(self, request: WireRequest) -> AsyncIterator[Answer]:
        """See `Wire.exchange`; used for streams, which do not count as one of the `connections`."""
        connection, answer = await self._ask(request, self._aborts)
        try:
            yield answer
        finally:
            self._give_back(connection)

    async def _ask(self, request: WireRequest, begun: int) -> tuple[Connection, Answer]:
        """Send a request; after the answer 401, send it once more if the credentials have changed."""
        config, credentials, tls = self._config, self._config.credentials, self._config.tls
        obtained, context = NO_CREDENTIALS, None
        if tls is not None:
            now = asyncio.get_running_loop().time()
            if now < tls.check_at and now < credentials.renew_at and credentials.latest is not None:
                obtained, context = credentials.latest, tls.latest
            else:
                obtained, context = await config.current_credentials(), await tls.context()
        is_renewed = False
        while True:
            head = self.head(request, obtained.header)
            connection = self._take_idle(context, begun) or await self.connect(context, begun)
            try:
                answer = await connection.ask(head, request.body or b"", request.permit)
                if answer.status != _UNAUTHORIZED or is_renewed:
                    return connection, answer
                config.tls_failed()
                renewed = await config.current_credentials(rejected=obtained)
                if renewed == obtained:
                    return connection, answer
            except BaseException:
                self._give_back(connection)
                raise
            self._give_back(connection)
            obtained, context, is_renewed = renewed, await config.ssl_context(), True

    @asynccontextmanager
    async def websocket(
        self, request: WireRequest, protocols: Sequence[str], *, longest: int
    ) -> AsyncIterator[WebSocket]:
        if self._to_proxy:
            raise ConfigError("a proxy for plain HTTP carries no WebSocket: use TLS to the API server")
        begun = self._aborts

        async def open_connection() -> Connection:
            return await self.connect(await self._config.ssl_context(), begun)

        # Run in a thread, because it imports aiohttp's client.
        module = await in_thread(lambda: import_module("manager_kubernetes_asyncio.websocket"))
        async with module.connect(self._config, open_connection, request, protocols, longest) as socket:
            yield socket

    def abort(self) -> None:
        """Drop all connections with their buffers, even connections that are being closed."""
        self._aborts += 1
        self._idle.clear()
        for each in list(self._sockets):
            with contextlib.suppress(OSError):  # already closed
                # The event loop sees the end of the connection and closes it, which sends a reset.
                each.shutdown(socket.SHUT_RDWR)
        for connection in list(self._open):
            # The caller must not take this abort for the regular end of a response.
            connection.abort()

    async def aclose(self) -> None:
        self._is_closed = True
        if self._expiry is not None:
            self._expiry.cancel()
        self._idle.clear()
        for connection in list(self._open):
            connection.abort()
            await connection.wait_closed()

    def head(self, request: WireRequest, authorization: str | None) -> bytes:
        """Return the request line and all headers."""
        target = self._prefix + request.path
        if not _is_target(target):
            raise ValueError(f"{request.path!r} is not the percent-encoded path of a request")
        line = f"{request.method} {target} HTTP/1.1\r\n".encode("ascii")
        known = self._headers.get(id(request.headers))
        if known is not None and known[0] is request.headers and known[1] == authorization:
            headers = known[2]
        else:
            headers = self._encoded(request.headers, authorization)
        if request.body is None and request.method in {"GET", "DELETE"}:
            return line + headers + b"\r\n"
        return b"%b%bContent-Length: %d\r\n\r\n" % (line, headers, len(request.body or b""))

    def _encoded(self, headers: Mapping[str, str], authorization: str | None) -> bytes:
        """Return all headers except Content-Length, encoded; the result is cached for each set of headers."""
        host = self._config.server.host_port_subcomponent or self._host
        complete = {"Host": host, **headers, "Accept-Encoding": "identity"}
        if authorization is not None:
            complete["Authorization"] = authorization
        if self._to_proxy and (named := proxy_authorization(self._config.proxy)) is not None:
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

    # Connections. The most recently used one is used next, so that surplus ones expire.

    def _take_idle(self, context: ssl.SSLContext | None, begun: int) -> Connection | None:
        """Return an idle connection with this TLS context, or None; the caller must give it back."""
        self._require_no_abort_since(begun)
        while self._idle:
            connection = self._idle.pop()
            # After a change of files, connections with the earlier context are useless.
            if connection.is_idle and connection.context is context:
                return connection
            connection.abort()
        return None

    async def connect(self, context: ssl.SSLContext | None, begun: int) -> Connection:
        """Open a connection with this TLS context; `begun` is the number of aborts before the request.

        Raises:
            Unreachable: no connection could be opened, or `abort` was called meanwhile.
            ConnectionLost: `abort` was called after the connection was opened.
        """
        try:
            connection = await self._dialer.connect(context, partial(self._open_socket, begun))
        except Unreachable as error:
            if isinstance(error.__cause__, ssl.SSLError):
                self._config.tls_failed()  # read the TLS files again
            raise
        self._open.add(connection)
        try:
            self._require_no_abort_since(begun)
        except ConnectionLost:
            connection.abort()
            raise
        return connection

    def _require_no_abort_since(self, begun: int) -> None:
        if begun != self._aborts or self._is_closed:
            raise ConnectionLost("connections were reset")

    def _give_back(self, connection: Connection) -> None:
        """Return a connection to the pool, or close it if its answer was not read to the end."""
        if self._is_closed or not connection.is_idle:
            # The rest of the answer is useless, and the peer may be gone.
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._expiry is None:
            self._expiry = loop.call_later(KEEP_ALIVE, self._expire)

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        while self._idle and self._idle[0].idle_since + KEEP_ALIVE <= loop.time():
            self._idle.popleft().abort()
        self._expiry = None
        if self._idle:
            self._expiry = loop.call_at(self._idle[0].idle_since + KEEP_ALIVE, self._expire)

    def _open_socket(self, begun: int, address: AddrInfoType) -> socket.socket:
        if begun != self._aborts or self._is_closed:
            raise ConnectionAbortedError("connections were reset")
        family, kind, protocol, *_ = address
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        # A caller that closes a connection has given up its request. With a graceful close, the system would
        # still deliver an abandoned write, for minutes if the network is down, even for a dead process.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        # The system ends the connection if the peer, or the network to it, disappears.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if (option := getattr(socket, name, None)) is not None:
                with contextlib.suppress(OSError):  # the system's default applies
                    opened.setsockopt(socket.IPPROTO_TCP, option, value)
        self._sockets.add(opened)
        return opened
