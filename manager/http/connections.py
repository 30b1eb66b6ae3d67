"""The connections of one server: how many there may be, and how long each may take for what is served."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from operator import itemgetter

from manager.address import client_at
from manager.http.connection import Connection, Limits
from manager.http.tls_transport import TlsTransport, Turn
from manager.logs import get_logger
from manager.open_files import NONE_LEFT, Reserve, are_scarce
from manager.rate_limit import Repeats
from manager.tls.served import ServedCertificate


async def readable(sock: socket.socket) -> None:
    """Return when reading from `sock`, or accepting, would not block.

    What is there is then taken in one step. With the loop's own `sock_accept`, a connection that arrives in
    the moment of a cancellation would be nobody's.
    """
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(sock, _set, ready)
    try:
        await ready
    finally:
        loop.remove_reader(sock)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


_TO_ASK = 1.0
"""Seconds, at the end, for the first request of a new connection: some round trips, with the handshake."""

_TURNS = 3
"""Of the event loop, from bytes in the kernel's buffer to a request."""

_ACCEPT_PAUSE = 1.0
"""Seconds until the next try when a connection cannot be taken."""

_log = get_logger("http")


class Connections:
    """Takes connections from a listening socket, and ends those that take too long.

    When there are as many as may be, a new one takes the place of one of the client who has most: one without
    a request, or of which we wait for the rest of a request, or that an answer is taken; the longest goes
    first. If that client has none such, another's place is taken who has kept us waiting for a moment. So
    whoever opens connections, whatever they do with them, keeps nobody else out. If we are at work for all of
    them, new ones wait. It is the same when file descriptors are scarce: then each server keeps to the
    connections that it has, and to one at least, for which a descriptor is kept in reserve.
    """

    def __init__(
        self,
        listening: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        *,
        certificate: ServedCertificate | None = None,
        limits: Limits,
    ) -> None:
        """Args:
        listening: where they arrive.
        protocol: makes what speaks on one connection.
        certificate: what is presented to clients; None is no TLS.
        limits: how many there may be at once, and how long each may take for what.
        """
        listening.setblocking(False)
        self._listening = listening
        self._protocol = protocol
        self._certificate = certificate
        self._limits = limits
        self._open: dict[Connection, asyncio.Task[None]] = {}
        """In the order in which each was last heard of."""
        self._changed = asyncio.Event()
        self._turn = Turn()
        self._reserve = Reserve()
        self._failures = Repeats()

    @contextmanager
    def answering(self, protocol: object, has_come: Callable[[], bool], length: int | None) -> Iterator[None]:
        """Enter this while a request that came over `protocol` is answered, up to the last byte.

        `has_come` tells whether all of the request is there, `length` how many bytes its body has; with None
        nothing that comes after its head is wanted.
        """
        connection = next((each for each in self._open if each.protocol is protocol), None)
        if connection is None:  # lost in the meantime
            yield
            return
        connection.begin_answer(has_come, length)
        try:
            yield
        finally:
            connection.end_answer()

    async def accept(self) -> None:
        """Take connections until cancelled."""
        with self._reserve:
            await self._accept()

    async def _accept(self) -> None:
        while True:
            try:
                await readable(self._listening)
                accepted, address = self._take()
            except (BlockingIOError, ConnectionError):
                continue  # gone before its turn came
            except OSError as error:
                # Of descriptors the process itself tells, whoever lacks them.
                if error.errno not in NONE_LEFT and (times := self._failures.count()) is not None:
                    _log.warning("cannot accept a connection", error=str(error), times=times)
                self._make_room("")
                await self._change(_ACCEPT_PAUSE)
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
        connection = Connection(self._protocol(), self._heard_of, self._limits, client=client)
        attending = self._attend(connection, accepted)
        task = asyncio.get_running_loop().create_task(attending, name="http-connection")
        task.add_done_callback(functools.partial(self._forget, connection))
        self._open[connection] = task

    async def drain(self, accepting: asyncio.Task[None]) -> None:
        """Take no more connections; return when what clients ask for is answered, or the time for it is over.

        `accepting` is the task of `accept`. Who has connected by now, and has not asked for anything yet, has
        a second to do so.
        """
        accepting.cancel()
        await asyncio.wait([accepting])
        with suppress(OSError):
            while len(self._open) < self._limits.connections and not are_scarce():
                accepted, address = self._listening.accept()
                self._begin(accepted, client_at(address[0] if isinstance(address, tuple) else None))
        self._listening.close()  # who comes now is to go elsewhere at once
        for _ in range(_TURNS):  # for what has come already to be looked at
            await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        end, to_ask = loop.time() + self._limits.finish, loop.time() + min(_TO_ASK, self._limits.finish)
        while (now := loop.time()) < end:
            there = [each for each in self._open if not each.over.is_set()]
            if now < to_ask and any(not each.has_asked for each in there):
                await self._change(to_ask - now)
            elif any(each.is_at_work for each in there):
                await self._change(end - now)
            else:
                return

    async def end(self) -> None:
        """End all of them at once, and return when they are gone."""
        tasks = list(self._open.values())
        for connection in list(self._open):
            self._drop(connection)
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
            await self._change(self._limits.patience)

    def _make_room(self, client: str) -> None:
        """See that somebody goes for a connection of `client`, unless one is going or nobody should."""
        leaving = any(each.over.is_set() for each in self._open)
        if not leaving and (first := self._first_to_go(client)) is not None:
            self._drop(first)

    async def _change(self, within: float) -> None:
        """Return when something has become of a connection, or so many seconds have passed."""
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._changed.wait()

    def _first_to_go(self, newcomer: str) -> Connection | None:
        """Who makes room for a connection of client `newcomer`; None if nobody should."""
        having = Counter(each.client for each in self._open)
        having[newcomer] += 1
        most = max(having.values())
        latest = asyncio.get_running_loop().time() - self._limits.patience
        candidates = []
        for each in self._open:
            idle, since = not each.answering, each.waited_for_since
            if each.over.is_set() or since is None:
                continue
            if since <= latest or (idle and having[each.client] == most):
                candidates.append(((-having[each.client], since), each))
        return min(candidates, key=itemgetter(0))[1] if candidates else None

    def _drop(self, connection: Connection) -> None:
        connection.over.set()

    def _heard_of(self, connection: Connection) -> None:
        """Put it last. It is idle now, so it may have to make room."""
        if (task := self._open.pop(connection, None)) is not None:
            self._open[connection] = task
        self._changed.set()

    async def _attend(self, connection: Connection, accepted: socket.socket) -> None:
        """One connection, from its beginning to its end."""
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

    def _forget(self, connection: Connection, task: asyncio.Task[None]) -> None:
        """Its socket is closed: who is waiting may have its place, and its descriptor."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a connection failed, and not because of its client", exc_info=error)
        del self._open[connection]
        self._reserve.take()
        self._changed.set()
