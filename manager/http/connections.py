"""The connections of one server: how many there may be, and how long each may take for what it does."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from operator import itemgetter
from typing import cast

from manager.address import client_at
from manager.http.limits import Limits
from manager.http.plain import begins_tls
from manager.http.readable import readable
from manager.logs import get_logger
from manager.open_files import NONE_LEFT, Reserve, scarce_from
from manager.rate_limit import Repeats
from manager.tls import ServedCertificate

__all__ = ["Connection", "Connections"]

_UNREAD = 64 * 1024
"""Bytes that TLS keeps of what is not read."""

_ACCEPT_PAUSE = 1.0
"""Seconds until the next try when a connection cannot be taken."""

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

_LONGEST_HEAD = 32 * 1024
"""Bytes of a request before its body."""

_BLANK_LINE = b"\r\n\r\n"

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
        self._listening = listening
        self._protocol = protocol
        self._certificate = certificate
        self._limits = limits
        self._open: dict[Connection, asyncio.Task[None]] = {}
        """In the order in which each was last heard of."""
        self._changed = asyncio.Event()
        self._reserve = Reserve()
        self._scarce_from = scarce_from()
        self._failures = Repeats()

    @contextmanager
    def answering(
        self, protocol: asyncio.BaseProtocol | None, has_come: Callable[[], bool], length: int | None
    ) -> Iterator[None]:
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
        loop = asyncio.get_running_loop()
        self._listening.setblocking(False)
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
            scarce = accepted.fileno() >= self._scarce_from
            try:
                await self._wait_for_room(client, scarce=scarce)
            except BaseException:
                accepted.close()
                raise
            if scarce:
                accepted = _lowered(accepted)
            accepted.setblocking(False)
            connection = Connection(self._protocol(), self._heard_of, self._limits, client=client)
            task = loop.create_task(self._attend(connection, accepted), name="http-connection")
            task.add_done_callback(functools.partial(self._forget, connection, accepted))
            self._open[connection] = task

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
        leaving = any(each.dropped for each in self._open)
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
            if each.dropped or since is None:
                continue
            if since <= latest or (idle and having[each.client] == most):
                candidates.append(((-having[each.client], since), each))
        return min(candidates, key=itemgetter(0))[1] if candidates else None

    def _drop(self, connection: Connection) -> None:
        # Once only: a second time would cut short how it ends.
        if not connection.dropped:
            connection.dropped = True
            self._open[connection].cancel()

    def _heard_of(self, connection: Connection) -> None:
        """Put it last. It is idle now, so it may have to make room."""
        if (task := self._open.pop(connection, None)) is not None:
            self._open[connection] = task
        self._changed.set()

    async def _attend(self, connection: Connection, accepted: socket.socket) -> None:
        """One connection, from its handshake to its end."""
        loop = asyncio.get_running_loop()
        context = None if self._certificate is None else self._certificate.context
        try:
            if context is not None and not await begins_tls(accepted, self._limits):
                return
            connection.begun = True
            try:
                await loop.connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=context,
                    ssl_handshake_timeout=None if context is None else self._limits.handshake,
                    ssl_shutdown_timeout=None if context is None else self._limits.goodbye,
                )
            except asyncio.CancelledError:
                connection.give_up()
                raise
            await connection.lost.wait()
        except OSError as error:
            # The client's affair: a port scan, a hang-up, no handshake.
            _log.debug("a connection failed", error=str(error) or type(error).__name__)
        finally:
            await connection.abort()

    def _forget(self, connection: Connection, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        if not connection.begun:
            accepted.close()  # else the loop has done so
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a connection failed, and not for its client's doing", exc_info=error)
        del self._open[connection]
        self._reserve.take()
        self._changed.set()


def _lowered(accepted: socket.socket) -> socket.socket:
    """The socket under the lowest number that is free: only then do numbers tell how many are in use."""
    with suppress(OSError):
        lower = accepted.dup()
        if lower.fileno() < accepted.fileno():
            accepted.close()
            return lower
        lower.close()
    return accepted


class Connection(asyncio.Protocol):
    """Passes requests on to the protocol that speaks HTTP, one after the other, and keeps an eye on the time.

    That protocol would take whatever comes at once, and keep all of it for each request that is none until
    garbage is collected. So what comes after a head waits until somebody answers it, and what comes after a
    body until it is answered.
    """

    def __init__(
        self,
        protocol: asyncio.Protocol,
        heard_of: Callable[[Connection], None],
        limits: Limits,
        *,
        client: str = "",
    ) -> None:
        """`heard_of` is called with this connection whenever it has been of use; `client` is whose it is."""
        self.protocol = protocol
        self.client = client
        self.lost = asyncio.Event()
        self.answering = 0
        """How many requests are being answered: one, or none."""
        self.begun = False
        """Whether the event loop has taken over the socket."""
        self.dropped = False
        """Whether its end is under way."""
        self._heard_of = heard_of
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None
        self._idle_since = asyncio.get_running_loop().time()
        self._limits = limits
        self._request_began = True
        self._head = 0
        """How many bytes of a head have come."""
        self._head_ends_with = b""
        self._passed_head = False
        """Whether all of a head has been passed on, and nobody answers it yet."""
        self._kept = bytearray()
        """What has come and is not passed on yet."""
        self._waits = False
        """Whether nothing more is read, as this is to be passed on first."""
        self._is_enough = False
        """Whether nothing that still comes is wanted: no client of ours sends so much ahead of an answer."""
        self._body = 0
        """Bytes of a body that are still to come."""
        self._has_come: Callable[[], bool] | None = None
        self._answer_began = 0.0
        self._not_taking_since: float | None = None
        self._heard = False
        """Whether a part of a request has come, and not yet all of its head."""

    @property
    def waited_for_since(self) -> float | None:
        """Since when, on the loop's clock, its client has to go on; None while it is our turn."""
        if not self.answering:
            return self._idle_since
        if self._has_come is not None and not self._has_come():
            return self._answer_began
        return self._not_taking_since

    def begin_answer(self, has_come: Callable[[], bool], length: int | None) -> None:
        """A request's head has come; see `Connections.answering`."""
        self.answering += 1
        loop = asyncio.get_running_loop()
        self._has_come, self._answer_began = has_come, loop.time()
        self._body, self._is_enough = length or 0, length is None
        self._request_began = self._heard = self._passed_head = False
        self._limit(self._limits.exchange, self._abort)
        loop.call_soon(self._pass_on)

    def end_answer(self) -> None:
        """The answer is on its way."""
        self.answering -= 1
        self._has_come = None
        loop = asyncio.get_running_loop()
        self._idle_since = loop.time()
        self._heard_of(self)
        if self._is_enough:
            # Taken for a while, as it may be lost to who is still sending that this is the end.
            self._limit(self._limits.goodbye, self._abort)
        else:
            loop.call_soon(self._pass_on)

    async def abort(self) -> None:
        """End the connection, whatever is still to be sent, and return when it is gone."""
        if self._transport is not None:
            self._transport.abort()
            await self.lost.wait()

    def give_up(self) -> None:
        """Its socket is closed by a loop that may tell nobody of it, as uvloop does just when it is ready."""
        if self._transport is not None:
            self.connection_lost(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake, if there is one, is over."""
        self._transport = cast("asyncio.Transport", transport)
        if hasattr(transport, "set_read_buffer_limits"):
            # Else TLS keeps half a megabyte, of each connection, of what nobody has read yet.
            transport.set_read_buffer_limits(high=_UNREAD)
        self._limit(self._limits.head, self._late)
        self.protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """A part of a request has come."""
        self._kept += data
        self._pass_on()

    def _pass_on(self) -> None:
        """Pass on what may be, of what has come; the rest has to wait, and whatever is behind it."""
        assert self._transport is not None
        kept, self._kept = self._kept, bytearray()
        start = len(kept) if self._is_enough else 0
        while start < len(kept) and not self._transport.is_closing():
            if self._body:
                end = min(start + self._body, len(kept))
                self._body -= end - start
            elif self.answering or self._passed_head:
                break
            else:
                start, end = self._head_in(kept, start)
                if self._head > _LONGEST_HEAD:
                    self._end_with(_TOO_LARGE)
                    return
            if start < end:
                self.protocol.data_received(bytes(kept[start:end]))
            start = end
        if self._transport.is_closing():
            return
        if self.answering and len(kept) - start > _LONGEST_HEAD:
            self._is_enough, start = True, len(kept)
        self._kept = kept[start:]
        if self._kept:
            self._transport.pause_reading()
            self._waits = True
        elif self._waits:
            self._transport.resume_reading()
            self._waits = False

    def _head_in(self, kept: bytearray, start: int) -> tuple[int, int]:
        """Where in what has come there is some of a head."""
        if not self._head:
            while start < len(kept) and kept[start] in b"\r\n":  # empty lines before a request mean nothing
                start += 1
            if start == len(kept):
                return start, start
        self._heard = True
        if not self._request_began:
            self._request_began = True
            self._limit(self._limits.head, self._late)
        before = self._head_ends_with
        found = (before + kept[start : start + _LONGEST_HEAD]).find(_BLANK_LINE)
        if found < 0:
            self._head += len(kept) - start
            self._head_ends_with = bytes((before + kept[start:])[1 - len(_BLANK_LINE) :])
            return start, len(kept)
        self._head, self._head_ends_with, self._passed_head = 0, b"", True
        return start, start + found - len(before) + len(_BLANK_LINE)

    def eof_received(self) -> bool | None:
        """The client sends no more."""
        return self.protocol.eof_received()

    def pause_writing(self) -> None:
        """The client takes the answer more slowly than it is made."""
        loop = asyncio.get_running_loop()
        self._not_taking_since = loop.time()
        self._taking = loop.call_later(self._limits.taking, self._abort)
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._not_taking_since = None
        if self._taking is not None:
            self._taking.cancel()
        self.protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, whoever wanted it."""
        if self.lost.is_set():
            return
        for timer in (self._timer, self._taking):
            if timer is not None:
                timer.cancel()
        self._kept = bytearray()
        self.protocol.connection_lost(exc)
        self.lost.set()

    def _late(self) -> None:
        """The head of a request is not complete in time."""
        assert self._transport is not None
        if not self._heard:
            self._transport.abort()
            return
        self._end_with(_TOO_SLOW)

    def _end_with(self, answer: bytes) -> None:
        assert self._transport is not None
        self._transport.write(answer)
        self._transport.close()
        self._limit(self._limits.goodbye, self._abort)

    def _abort(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    def _limit(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.lost.is_set():
            self._timer = asyncio.get_running_loop().call_later(seconds, then)
