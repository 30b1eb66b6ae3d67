"""Accepting the connections of one server, and ending some when there are too many."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from operator import itemgetter

from manager.server.connection import ClientConnection, Limits
from manager.server.tls_transport import TlsTransport, Turn
from manager.telemetry.logs import get_logger
from manager.telemetry.open_files import NONE_LEFT, Reserve, are_scarce
from manager.tls.served import ServedCertificate
from manager.util.address import client_at
from manager.util.rate_limit import Repeats

_FIRST_REQUEST = 1.0
"""Seconds, at the end, for the first request of a new connection: some round trips, with the handshake."""

_TURNS = 3
"""Turns of the event loop from bytes in the kernel's buffer to a request."""

_ACCEPT_PAUSE = 1.0
"""Seconds until the next try when a connection cannot be accepted."""

_log = get_logger("http")


async def _readable(sock: socket.socket) -> None:
    """Return when accepting would not block.

    The loop's own `sock_accept` loses a connection that arrives in the moment of a cancellation.
    """
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(sock, wake)
    try:
        await ready
    finally:
        loop.remove_reader(sock)


class Acceptor:
    """Acceptor of connections from a listening socket, which ends some when there are too many.

    A new connection takes the place of another one of the client with most connections: the one that has
    waited longest for its client. If that client has none such, a connection of any client goes that has made
    the server wait for a moment. So a client that opens many connections keeps no other client out. While the
    server works for all of them, new ones wait. The same holds when file descriptors are scarce: then each
    server keeps the connections that it has, and at least one, for which a descriptor is kept in reserve.
    """

    def __init__(
        self,
        listening: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        *,
        certificate: ServedCertificate | None = None,
        limits: Limits,
    ) -> None:
        """Prepare to accept connections.

        Args:
            listening: the listening socket.
            protocol: makes the HTTP protocol of one connection.
            certificate: the certificate for clients; None disables TLS.
            limits: of the number of connections and their times.
        """
        listening.setblocking(False)
        self._listening = listening
        self._protocol = protocol
        self._certificate = certificate
        self._limits = limits
        self._open: dict[asyncio.Protocol, tuple[ClientConnection, asyncio.Task[None]]] = {}
        """By protocol, in the order of their beginning."""
        self._changed = asyncio.Event()
        self._turn = Turn()
        self._reserve = Reserve()
        self._failures = Repeats()

    def connection_of(self, protocol: asyncio.Protocol) -> ClientConnection:
        """Return the connection of a protocol. Raises `ConnectionResetError` when it is lost."""
        if (found := self._open.get(protocol)) is None:
            raise ConnectionResetError("the connection is lost")
        return found[0]

    async def accept(self) -> None:
        """Accept connections until cancelled."""
        with self._reserve:
            await self._accept()

    async def _accept(self) -> None:
        while True:
            try:
                await _readable(self._listening)
                accepted, address = self._take()
            except (BlockingIOError, ConnectionError):
                continue  # gone before its turn came
            except OSError as error:
                # `open_files` logs a lack of descriptors for the whole process.
                if error.errno not in NONE_LEFT and (times := self._failures.count()) is not None:
                    _log.warning("cannot accept a connection", error=str(error), times=times)
                self._make_room("")
                await self._wait_for_change(_ACCEPT_PAUSE)
                self._reserve.take()
                continue
            client = client_at(address[0] if isinstance(address, tuple) else None)
            if not self._reserve.take():
                self._make_room(client)
            scarce = are_scarce()
            try:
                await self._wait_for_room(client, scarce=scarce)
            except BaseException:
                accepted.close()
                raise
            self._begin(accepted, client)

    def _begin(self, accepted: socket.socket, client: str) -> None:
        accepted.setblocking(False)
        protocol = self._protocol()
        connection = ClientConnection(protocol, self._changed.set, self._limits, client=client)
        attending = self._attend(connection, accepted)
        task = asyncio.get_running_loop().create_task(attending, name="http-connection")
        task.add_done_callback(functools.partial(self._forget, protocol))
        self._open[protocol] = connection, task

    async def drain(self, accepting: asyncio.Task[None]) -> None:
        """Accept no more connections; return when all requests are answered, or the time for it is over.

        `accepting` is the task of `accept`. A client that has connected by now, and has sent nothing yet, has
        a second for its request.
        """
        accepting.cancel()
        await asyncio.wait([accepting])
        with suppress(OSError):
            while len(self._open) < self._limits.connections and not are_scarce():
                accepted, address = self._listening.accept()
                self._begin(accepted, client_at(address[0] if isinstance(address, tuple) else None))
        self._listening.close()  # new clients go elsewhere at once
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        end = loop.time() + self._limits.drain
        first_until = loop.time() + min(_FIRST_REQUEST, self._limits.drain)
        while (now := loop.time()) < end:
            there = [each for each, _ in self._open.values() if not each.over.is_set()]
            if now < first_until and any(not each.has_asked for each in there):
                await self._wait_for_change(first_until - now)
            elif any(each.is_busy for each in there):
                await self._wait_for_change(end - now)
            else:
                return

    async def end(self) -> None:
        """End all of them at once, and return when they are gone."""
        tasks = [task for _, task in self._open.values()]
        for connection, _ in self._open.values():
            connection.over.set()
        if tasks:
            await asyncio.wait(tasks)

    def _take(self) -> tuple[socket.socket, object]:
        try:
            return self._listening.accept()
        except OSError as error:
            if error.errno not in NONE_LEFT or not self._reserve.give_up():
                raise
        try:
            return self._listening.accept()
        except OSError:
            self._reserve.take()
            raise

    async def _wait_for_room(self, client: str, *, scarce: bool) -> None:
        most = self._limits.connections
        if scarce:
            most = min(most, max(1, len(self._open)))
        while len(self._open) >= most:
            self._make_room(client)
            await self._wait_for_change(self._limits.eviction)

    def _make_room(self, client: str) -> None:
        """End a connection for one of `client`, unless one is ending or none may be ended."""
        ending = any(each.over.is_set() for each, _ in self._open.values())
        if not ending and (first := self._first_to_end(client)) is not None:
            first.over.set()

    async def _wait_for_change(self, within: float) -> None:
        """Return when a connection is idle or gone, or so many seconds have passed."""
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._changed.wait()

    def _first_to_end(self, newcomer: str) -> ClientConnection | None:
        """Return the connection that makes room for one of client `newcomer`; None if none may be ended."""
        having = Counter(each.client for each, _ in self._open.values())
        having[newcomer] += 1
        most = max(having.values())
        latest = asyncio.get_running_loop().time() - self._limits.eviction
        candidates = []
        for each, _ in self._open.values():
            idle, since = not each.answering, each.client_idle_since
            if each.over.is_set() or since is None:
                continue
            if since <= latest or (idle and having[each.client] == most):
                candidates.append(((-having[each.client], since), each))
        return min(candidates, key=itemgetter(0))[1] if candidates else None

    async def _attend(self, connection: ClientConnection, accepted: socket.socket) -> None:
        """Keep one connection from its beginning to its end."""
        protocol: asyncio.BaseProtocol = connection
        if self._certificate is not None:
            protocol = TlsTransport(connection, self._certificate.context, self._limits, self._turn)
        connect = asyncio.get_running_loop().connect_accepted_socket
        try:
            transport, _ = await connect(lambda: protocol, accepted)
        except BaseException:
            accepted.close()
            raise
        await connection.over.wait()
        transport.abort()
        await connection.lost.wait()

    def _forget(self, protocol: asyncio.Protocol, task: asyncio.Task[None]) -> None:
        """Give the place and the descriptor of a closed connection to others."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a connection failed, and not because of its client", exc_info=error)
        del self._open[protocol]
        self._reserve.take()
        self._changed.set()
