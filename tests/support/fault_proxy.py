"""A reverse proxy in front of an API server that misbehaves on demand.

It runs in a thread with a loop of its own, so a test may block, and drive it, from anywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import ipaddress
import json
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar

import aiohttp
import yarl
from aiohttp import web
from cryptography import x509

from tests.support.certificates import Authority
from tests.support.exchanges import Exchange, Match
from tests.support.faults import Answer, Delay, Fault, LostAnswer, NoAnswer, reset
from tests.support.kubeconfig import Credentials
from tests.support.ports import PortBlock
from tests.support.proxied_watch import ProxiedWatch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
    from pathlib import Path

T = TypeVar("T")

# These belong to one hop; aiohttp writes its own towards the client.
HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "host", "date", "server"}
COMMAND_TIMEOUT = 60.0
GONE = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "too old resource version",
    "reason": "Expired",
    "code": 410,
}


class FaultProxy:
    """Passes everything on until told otherwise; counts what passes.

    Every command takes hold before it returns. A match without arguments is every request.
    """

    def __init__(self, upstream: Credentials, *, folder: Path) -> None:
        self._upstream = upstream
        self._folder = folder
        self._authority = Authority("fault proxy")
        self._ports = PortBlock(1)
        self._exchanges: list[Exchange] = []
        self._faults: list[Fault] = []
        self._watches: set[ProxiedWatch] = set()
        self._connections: set[asyncio.Transport] = set()
        self._refusing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="fault-proxy")
        self._started = threading.Event()
        self.kubeconfig = self._credentials().write(folder / "kubeconfig")

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(COMMAND_TIMEOUT), "the proxy did not start"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(COMMAND_TIMEOUT)
        self._ports.close()

    # What passed.

    def exchanges(self, match: Match | None = None) -> list[Exchange]:
        """Every request so far that matches, oldest first."""
        wanted = match or Match()
        return [exchange for exchange in self._exchanges.copy() if wanted(exchange)]

    def count(self, match: Match | None = None) -> int:
        """How many requests so far match."""
        return len(self.exchanges(match))

    def open_watches(self, match: Match | None = None) -> list[Exchange]:
        """The watches that are open now, as the server sees it."""
        wanted = match or Match()
        return [watch.exchange for watch in self._watches.copy() if wanted(watch.exchange)]

    # Single requests. A fault is used up after `times`; None is until `heal`.

    def answer(
        self,
        status: int,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        match: Match | None = None,
        times: int | None = 1,
    ) -> None:
        """Answer in the server's place, which never hears of the request."""
        self._add(Answer(match or Match(), times, status=status, headers=dict(headers or {}), body=body))

    def lose_answers(self, *, match: Match | None = None, times: int | None = 1) -> None:
        """Let the server do it, then drop the connection instead of answering."""
        self._add(LostAnswer(match or Match(), times))

    def drop(self, *, match: Match | None = None, times: int | None = 1) -> None:
        """Drop the connection before the server hears of the request."""
        self._add(NoAnswer(match or Match(), times))

    def delay(self, seconds: float, *, match: Match | None = None, times: int | None = 1) -> None:
        """Hold the request back for a while."""
        self._add(Delay(match or Match(), times, seconds=seconds))

    # Open watches. Each returns how many it found.

    def stall_watches(self, match: Match | None = None) -> int:
        """The open watches go silent for good, their connections stay; new ones are not affected."""
        return self._each_watch(match, ProxiedWatch.stall)

    def tear_watches(self, match: Match | None = None) -> int:
        """Drop each watch in the middle of the next line that it would carry."""
        return self._each_watch(match, ProxiedWatch.tear)

    def end_watches(self, match: Match | None = None) -> int:
        """End each watch the way the server does when its time is up."""
        return self._each_watch(match, ProxiedWatch.end)

    def say_to_watches(self, line: bytes, match: Match | None = None) -> int:
        """Put a line of our own into each stream."""
        return self._each_watch(match, lambda watch: watch.say(line))

    def expire_watches(self, match: Match | None = None) -> int:
        """Tell each watch that its version is too old (410), and end it."""
        line = json.dumps({"type": "ERROR", "object": GONE}).encode() + b"\n"
        self.say_to_watches(line, match)
        return self.end_watches(match)

    # The whole server.

    def cut(self) -> int:
        """Reset every connection there is, whatever it carries; return how many."""
        return self._call(self._cut())

    def refuse(self) -> None:
        """Reset every connection and refuse new ones, until `accept`."""
        self._call(self._refuse())

    def accept(self) -> None:
        """Take connections again."""
        self._call(self._accept())

    def black_hole(self) -> None:
        """Take everything and say nothing on any connection, old or new, until `heal`."""
        self._call(self._set_flow(flowing=False))

    def heal(self) -> None:
        """Forget the faults that are still to come, and let a black hole's traffic flow again."""
        self._faults.clear()
        self._call(self._set_flow(flowing=True))

    def open_transports(self) -> list[Any]:
        """Every connection of the proxy's loop, on whichever side and in whatever state."""
        known = getattr(self._loop, "_transports", {})
        return [each for each in list(known.values()) if each._sock is not None]

    # What follows runs in the proxy's own thread.

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._flow = asyncio.Event()
        self._flow.set()
        connector = aiohttp.TCPConnector(ssl=self._upstream.ssl_context(self._folder), limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        application = web.Application(client_max_size=64 << 20)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            application,
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=0.1,
            keepalive_timeout=600,
        )
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        ) as self._session:
            await self._runner.setup()
            try:
                await self._accept()
                self._started.set()
                await self._stop.wait()
                await self._cut()
            finally:
                await _let_accepted_in()
                await self._runner.cleanup()
        # Connections whose TLS is still to begin, or still says goodbye, are nobody's but the loop's.
        while transports := self.open_transports():
            for transport in transports:
                transport.abort()
            await asyncio.sleep(0)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self._refusing:
            # Its connection was coming up when that began, and carried nothing yet that told of it.
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
        await self._flow.wait()
        fault = self._take_fault(exchange)
        if fault is not None:
            early = await fault.before(request)
            if early is not None:
                exchange.status = early.status
                return early
        async with self._send(request) as upstream:
            exchange.status = upstream.status
            if fault is not None:
                await fault.after(request)
            headers = _end_to_end(upstream.headers)
            if exchange.stream and upstream.status == web.HTTPOk.status_code:
                return await self._stream(request, exchange, upstream, headers)
            body = await upstream.read()
            await self._flow.wait()
            return web.Response(status=upstream.status, headers=headers, body=body)

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
            # The server itself is away: the client sees what it would have seen without us in between.
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
        watch = ProxiedWatch(exchange, request, response, flow=self._flow)
        self._watches.add(watch)
        try:
            await watch.run(upstream.content.iter_any())
        finally:
            self._watches.discard(watch)
        return response

    def _take_fault(self, exchange: Exchange) -> Fault | None:
        for fault in self._faults:
            if fault.match(exchange):
                if fault.use_up():
                    self._faults.remove(fault)
                return fault
        return None

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

    async def _set_flow(self, *, flowing: bool) -> None:
        if flowing:
            self._flow.set()
        else:
            self._flow.clear()

    # Across the threads.

    def _add(self, fault: Fault) -> None:
        async def add() -> None:
            self._faults.append(fault)

        self._call(add())

    def _each_watch(self, match: Match | None, action: Callable[[ProxiedWatch], None]) -> int:
        wanted = match or Match()

        async def act() -> int:
            chosen = [watch for watch in self._watches if wanted(watch.exchange)]
            for watch in chosen:
                action(watch)
            return len(chosen)

        return self._call(act())

    def _call(self, command: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None, "the proxy has not been started"
        return asyncio.run_coroutine_threadsafe(command, self._loop).result(COMMAND_TIMEOUT)

    # Identity.

    def _credentials(self) -> Credentials:
        return Credentials(
            server=f"https://127.0.0.1:{self._ports[0]}",
            authority=self._authority.pem,
            token="of-no-concern",  # the proxy shows the upstream credentials instead
        )

    def _server_context(self) -> ssl.SSLContext:
        certificate, key = self._authority.server(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        pem = self._folder / "proxy.pem"
        pem.write_bytes(certificate + key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pem)
        return context


async def _let_accepted_in() -> None:
    """Let asyncio make the transports of connections that it has accepted.

    A server closed in between takes them no more: an assertion of asyncio fails, and nobody closes them.
    """
    while any(_is_accepted(task) for task in asyncio.all_tasks()):  # noqa: ASYNC110 -- no event tells of it
        await asyncio.sleep(0)


def _is_accepted(task: asyncio.Task[Any]) -> bool:
    coroutine = task.get_coro()
    assert inspect.iscoroutine(coroutine)
    created = inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
    return created and coroutine.__name__ == "_accept_connection2"


def _abort(response: aiohttp.ClientResponse) -> None:
    """Drop the connection of an answer that nobody reads to its end; a close would linger."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def _end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in HOP_BY_HOP}
