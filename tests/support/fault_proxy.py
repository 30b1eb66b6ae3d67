"""A reverse proxy in front of an API server, with faults that tests inject.

The proxy runs in its own thread and event loop, so blocking tests can control it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import re
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Self

import aiohttp
import yarl
from aiohttp import web

from tests.support.certificates import Authority
from tests.support.kubeconfig import Credentials
from tests.support.loop_thread import LoopThread
from tests.support.ports import PortBlock

# Headers of one hop; aiohttp writes its own headers for the client.
HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "host", "date", "server"}
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Exchange:
    """A request through the proxy; `status` is None until the response comes.

    `over` is the time at which the proxy finished the request, and None before.
    """

    method: str
    path: str
    query: dict[str, str]
    user_agent: str
    at: float = dataclasses.field(default_factory=time.monotonic)
    status: int | None = None
    over: float | None = None

    @classmethod
    def of(cls, request: web.Request) -> Self:
        return cls(
            method=request.method,
            path=request.path,
            query=dict(request.query),
            user_agent=request.headers.get("User-Agent", ""),
        )

    @property
    def watch(self) -> bool:
        return self.query.get("watch", "").lower() in {"1", "true"}

    @property
    def stream(self) -> bool:
        """Return whether the request is a watch or follows a log."""
        return self.watch or self.query.get("follow", "").lower() in {"1", "true"}

    def __str__(self) -> str:
        kind = "WATCH" if self.watch else self.method
        return f"{kind} {self.path} -> {self.status or 'no answer yet'}"


@dataclasses.dataclass(frozen=True, slots=True)
class Match:
    """Filter of requests by method, by a pattern of the path, and by whether they are watches.

    None selects every value.
    """

    method: str | None = None
    path: str | None = None
    watch: bool | None = None

    def __call__(self, exchange: Exchange) -> bool:
        return (
            self.method in {None, exchange.method}
            and (self.path is None or re.search(self.path, exchange.path) is not None)
            and self.watch in {None, exchange.watch}
        )


@dataclasses.dataclass(eq=False)
class Fault:
    """Fault for the next `times` requests that match, or for all of them if `times` is None.

    `strike` runs before the server receives the request; a response of `strike` goes to the client.
    """

    match: Match
    times: int | None
    strike: Callable[[], Awaitable[web.Response | None]]


class FaultProxy(LoopThread):
    """Proxy that forwards and records all requests until a test injects a fault.

    A method that injects a fault returns when the fault is active; connections and streams end soon after.
    A match of None selects every request.
    """

    def __init__(self, upstream: Credentials, *, folder: Path) -> None:
        super().__init__("fault-proxy")
        self._upstream = upstream
        self._folder = folder
        self._authority = Authority("fault proxy")
        self._ports = PortBlock(1)
        self._exchanges: list[Exchange] = []
        self._faults: list[Fault] = []
        self._watches: dict[Exchange, asyncio.Event] = {}
        """Open streams, each with the event that ends it without an error."""
        self._connections: set[asyncio.Transport] = set()
        self._refusing = False
        self.kubeconfig = self._credentials().write(folder / "kubeconfig")

    # Exchanges so far.

    def exchanges(self, match: Match | None = None) -> list[Exchange]:
        """Return all requests until now that `match` selects, oldest first."""
        return list(filter(match or Match(), self._exchanges.copy()))

    def count(self, match: Match | None = None) -> int:
        """Return the number of requests until now that `match` selects."""
        return len(self.exchanges(match))

    def open_watches(self, match: Match | None = None) -> list[Exchange]:
        """Return the watches and followed logs that are open between proxy and server."""
        return list(filter(match or Match(), self._watches.copy()))

    # Faults of requests. A fault ends after `times` requests; None means never.

    def answer(
        self,
        status: int,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        match: Match | None = None,
        times: int | None = 1,
    ) -> None:
        """Answer the next `times` requests that `match` selects; the server does not receive them."""

        async def strike() -> web.Response:
            return web.Response(status=status, headers=headers, body=body)

        self._add(match, times, strike)

    def delay(self, seconds: float, *, match: Match | None = None, times: int | None = 1) -> None:
        """Delay the next `times` requests that `match` selects."""
        self._add(match, times, lambda: asyncio.sleep(seconds))

    def end_watches(self, match: Match | None = None) -> None:
        """End each open watch or log without an error, as the API server does at a watch's timeout."""

        async def end() -> None:
            for exchange in self.open_watches(match):
                self._watches[exchange].set()

        self.run(end())

    # The whole server.

    def cut(self) -> int:
        """Reset all open connections; return their number."""
        return self.run(self._cut())

    def refuse(self) -> None:
        """Reset all connections, and refuse new ones until `accept` is called."""
        self.run(self._refuse())

    def accept(self) -> None:
        """Accept connections again."""
        self.run(self._accept())

    def open_transports(self) -> list[Any]:
        """Return all open connections of the proxy, to clients and to the server."""
        known = getattr(self.loop, "_transports", {})
        return [each for each in list(known.values()) if each._sock is not None]

    # The methods below run in the proxy's own thread.

    async def _open(self) -> None:
        application = web.Application(client_max_size=64 << 20)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            application,
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=0.1,
            keepalive_timeout=600,
        )
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._upstream.ssl_context(self._folder), limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        await self._runner.setup()
        await self._accept()

    async def _close(self) -> None:
        await self._cut()
        await _let_accepted_in()
        await self._runner.cleanup()
        await self._session.close()
        # Only the event loop knows connections that are before or after their TLS handshake.
        while transports := self.open_transports():
            for transport in transports:
                transport.abort()
            await asyncio.sleep(0)
        self._ports.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self._refusing:
            # The connection was being opened when `refuse` was called, and is not registered yet.
            reset(request)
            raise ConnectionResetError("refused")
        exchange = Exchange.of(request)
        self._exchanges.append(exchange)
        assert request.transport is not None
        self._connections.add(request.transport)
        try:
            return await self._respond(request, exchange)
        finally:
            exchange.over = time.monotonic()

    async def _respond(self, request: web.Request, exchange: Exchange) -> web.StreamResponse:
        fault = self._take_fault(exchange)
        if fault is not None and (early := await fault.strike()) is not None:
            exchange.status = early.status
            return early
        async with self._send(request) as upstream:
            exchange.status = upstream.status
            headers = _end_to_end(upstream.headers)
            if exchange.stream and upstream.status == web.HTTPOk.status_code:
                return await self._stream(request, exchange, upstream, headers)
            return web.Response(status=upstream.status, headers=headers, body=await upstream.read())

    @contextlib.asynccontextmanager
    async def _send(self, request: web.Request) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = _end_to_end(request.headers)
        headers.pop("Authorization", None)
        if self._upstream.token is not None:
            headers["Authorization"] = f"Bearer {self._upstream.token}"
        url = yarl.URL(self._upstream.server + request.raw_path, encoded=True)
        body = await request.read() or None
        try:
            async with self._session.request(request.method, url, headers=headers, data=body) as response:
                try:
                    yield response
                except BaseException:
                    _abort(response)
                    raise
        except aiohttp.ClientError:
            # The server does not run: reset the connection, as the client would see without the proxy.
            reset(request)
            raise

    async def _stream(
        self,
        request: web.Request,
        exchange: Exchange,
        upstream: aiohttp.ClientResponse,
        headers: dict[str, str],
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=upstream.status, headers=headers)
        await response.prepare(request)
        ended = self._watches[exchange] = asyncio.Event()

        async def copy() -> None:
            try:
                async for chunk in upstream.content.iter_any():
                    await response.write(chunk)
            finally:
                ended.set()

        copying = asyncio.create_task(copy(), name="proxied-watch-copy")
        try:
            await ended.wait()
        finally:
            del self._watches[exchange]
            copying.cancel()
            await asyncio.gather(copying, return_exceptions=True)
        return response

    def _take_fault(self, exchange: Exchange) -> Fault | None:
        fault = next((each for each in self._faults if each.match(exchange)), None)
        if fault is not None and fault.times is not None:
            fault.times -= 1
            if fault.times == 0:
                self._faults.remove(fault)
        return fault

    async def _cut(self) -> int:
        open_now = [transport for transport in self._connections if not transport.is_closing()]
        for transport in open_now:
            reset(transport)
        self._connections.clear()
        return len(open_now)

    async def _refuse(self) -> None:
        self._refusing = True
        await _let_accepted_in()
        await self._site.stop()
        await self._cut()

    async def _accept(self) -> None:
        self._refusing = False
        self._site = web.TCPSite(
            self._runner, "127.0.0.1", self._ports[0], ssl_context=self._server_context(), reuse_address=True
        )
        await self._site.start()

    def _add(
        self, match: Match | None, times: int | None, strike: Callable[[], Awaitable[web.Response | None]]
    ) -> None:
        async def add() -> None:
            self._faults.append(Fault(match or Match(), times, strike))

        self.run(add())

    # Identity.

    def _credentials(self) -> Credentials:
        return Credentials(
            server=f"https://127.0.0.1:{self._ports[0]}",
            authority=self._authority.pem,
            token="of-no-concern",  # the proxy shows the upstream credentials instead
        )

    def _server_context(self) -> ssl.SSLContext:
        certificate, key = self._authority.server("127.0.0.1")
        pem = self._folder / "proxy.pem"
        pem.write_bytes(certificate + key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pem)
        return context


async def _let_accepted_in() -> None:
    """Wait until asyncio has created the transports of accepted connections.

    If a server closes earlier, an assertion of asyncio fails, and the connections stay open.
    """
    while any(_is_accepted(task) for task in asyncio.all_tasks()):  # noqa: ASYNC110 -- no event tells of it
        await asyncio.sleep(0)


def _is_accepted(task: asyncio.Task[Any]) -> bool:
    coroutine = task.get_coro()
    assert inspect.iscoroutine(coroutine)
    created = inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
    return created and coroutine.__name__ == "_accept_connection2"


def _abort(response: aiohttp.ClientResponse) -> None:
    """Abort the connection of an incomplete response; a normal close would wait for the response's end."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def _end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in HOP_BY_HOP}


def reset(connection: web.Request | asyncio.Transport) -> None:
    """Close a client's connection with a TCP reset."""
    transport = connection.transport if isinstance(connection, web.Request) else connection
    if transport is None:
        return
    raw = transport.get_extra_info("socket")
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    transport.abort()  # type: ignore[attr-defined]
