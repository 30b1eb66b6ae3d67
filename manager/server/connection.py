"""Connections of a server: they are accepted and closed, and their requests processed one after another."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from operator import itemgetter
from typing import Literal

from aiohttp import web

from manager.server import Limits
from manager.telemetry.logs import get_logger
from manager.telemetry.open_files import NONE_LEFT, Reserve, are_scarce
from manager.tls.served import ServedCertificate
from manager.util.address import client_at
from manager.util.rate_limit import Repeats

_FIRST_REQUEST = 1.0
"""Seconds, at the end, for the first request of a new connection: some round trips, with the handshake."""

_TURNS = 3
"""Iterations of the event loop from bytes in the kernel's buffer to a request."""

_ACCEPT_PAUSE = 1.0
"""Seconds until the next attempt after a failure to accept a connection."""

_log = get_logger("http")

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

LONGEST_HEAD = 32 * 1024
"""Bytes of a request before its body."""

_LONGEST_TARGET = 2048
"""Bytes of path and query, because their decoding cannot be interrupted."""

_LINES = 100
"""Lines in a head: our clients send ten, and each may need a hundred times its bytes in memory."""

SERVER = {"Server": "operator-manager"}
"""A header that replaces the versions of Python and aiohttp."""

_BLANK_LINE = b"\r\n\r\n"


State = Literal["waiting", "head", "passed", "answering"]
"""The state: waits for a request, has a part of a head, has passed the head on, or is answering."""


class ClientConnection(web.RequestHandler):
    """The HTTP protocol of one connection, which limits the data that its client may send.

    aiohttp gets a head when it is complete, a body while its request is being answered, and the next head
    after the answer. aiohttp itself does not limit size and duration of a head, and pipelined requests.
    """

    def __init__(
        self, server: web.Server, on_idle: Callable[[], None], limits: Limits, *, client: str = ""
    ) -> None:
        """Create a protocol. `on_idle` runs after each answer; connections of one `client` count together."""
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # None disables the log
            auto_decompress=False,  # a small body may expand to a large one
            lingering_time=limits.linger,
            max_line_size=_LONGEST_TARGET,
            max_field_size=LONGEST_HEAD,
            max_headers=_LINES,
        )
        self.client = client
        self.over = asyncio.Event()  # set when the connection is lost, or must end
        self.lost = asyncio.Event()
        self.has_asked = False  # whether a request has ever begun to arrive
        self._on_idle = on_idle
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._state: State = "waiting"
        self._since = self._loop.time()  # when the last answer began or ended
        self._stalled_since: float | None = None  # since when the client does not read its answer
        self._received = bytearray()  # bytes that are not passed on yet
        self._is_held = False  # whether reading is paused until these bytes are passed on
        self._discards = False  # whether all further data are dropped, because the answer is the last
        self._has_ended = False  # whether the client sends no more
        self._body = 0  # remaining bytes of a body

    @property
    def answering(self) -> bool:
        """Return whether a request is being answered."""
        return self._state == "answering"

    @property
    def client_idle_since(self) -> float | None:
        """Return since when, in loop time, the server waits for the client; None while the client waits."""
        return self._since if not self.answering or self._body or self._discards else self._stalled_since

    @property
    def is_busy(self) -> bool:
        """Return whether a request has begun and is unanswered, or response bytes are unsent."""
        if self._state != "waiting" or self._received:
            return True
        return self.transport is not None and self.transport.is_closing()

    def begin_answer(self, length: int | None) -> None:
        """Start to answer a request with a body of `length` bytes; None drops all further received data."""
        self._state, self._since = "answering", self._loop.time()
        self._body, self._discards = length or 0, length is None
        self._limit(self._limits.exchange, self._abort)
        self._loop.call_soon(self._pass_on)

    def end_answer(self) -> None:
        """Record that the answer has been written."""
        self._state, self._since = "waiting", self._loop.time()
        self._on_idle()
        if (self._body or self._discards) and not self._has_ended:
            # The protocol continues to read until then: closing earlier would reset the connection, and the
            # reset may overtake the answer.
            self._limit(self._limits.linger, self._abort)
        else:
            self._limit(self._limits.keep_alive, self._hang_up)
        self._loop.call_soon(self._pass_on)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._limit(self._limits.head, self._end_late)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        is_more = self._received or self._discards or self.transport is None
        if not data or (len(data) <= self._body and not is_more):
            # A part of a body is passed on without a copy; without data, aiohttp resumes its parser.
            self._body -= len(data)
            super().data_received(data)
            return
        self._received += data
        self._pass_on()

    def _pass_on(self) -> None:
        """Pass the data that aiohttp may have now to it; pause reading while received data remain."""
        received = self._received
        while self.transport is not None and not self.transport.is_closing() and (end := self._passable()):
            part = bytes(received[:end])
            del received[:end]
            super().data_received(part)
        if self.transport is None or self.transport.is_closing():
            return
        is_waiting = self._state in {"waiting", "head"}
        if self._has_ended and (self._body or is_waiting):
            self.transport.close()
            return
        if self.answering and len(received) > LONGEST_HEAD:
            self._discards = True
            received.clear()
        if (holds := bool(received) and not is_waiting) is not self._is_held:
            self._is_held = holds
            (self.transport.pause_reading if holds else self.transport.resume_reading)()

    def _passable(self) -> int:
        received = self._received
        if self._discards:
            received.clear()
        if self._body:
            size = min(self._body, len(received))
            self._body -= size
            return size
        begins = len(received) - len(received.lstrip(b"\r\n"))
        if self._state in {"passed", "answering"} or not received:
            return 0
        if begins < len(received):
            if self._state == "waiting":
                self._state, self.has_asked = "head", True
                self._limit(self._limits.head, self._end_late)
            is_text = received[begins : begins + 1].isalpha()
            end = received.find(_BLANK_LINE, begins, LONGEST_HEAD)
            if end >= 0 or not is_text:
                self._state = "passed"
                # The protocol refuses the first byte of other protocols, such as TLS.
                return end + len(_BLANK_LINE) if is_text else begins + 1
        if len(received) > LONGEST_HEAD:
            self._end_with(_TOO_LARGE)
        return 0

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's own signature
        self._has_ended = True
        self._pass_on()
        return self.transport is not None and not self.transport.is_closing()

    def pause_writing(self) -> None:
        self._stalled_since = self._loop.time()
        self._stall_timer = self._loop.call_later(self._limits.write_stall, self._abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stalled_since = None
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        super().resume_writing()

    def connection_lost(self, exc: BaseException | None) -> None:
        for timer in (self._timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        self._received.clear()
        if self.transport is not None:  # otherwise it was lost in the handshake
            super().connection_lost(exc)
        self.lost.set()
        self.over.set()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer bytes that are not a request. `Server` answers failures of handlers itself, if it can."""
        if status != HTTPStatus.BAD_REQUEST:
            raise ConnectionResetError("the client is gone, or has a part of an answer") from exc
        del request, message  # the message quotes the client's data, which may contain a token
        _log.debug("received an invalid request", error=type(exc).__name__)
        if exc is not None:
            exc.__traceback__ = None  # otherwise a reference cycle would keep the client's bytes
        return last_response(status)

    def _end_late(self) -> None:
        if self._state == "head" and self.transport is not None and not self.transport.is_closing():
            self._end_with(_TOO_SLOW)
        else:
            self._abort()

    def _end_with(self, answer: bytes) -> None:
        assert self.transport is not None
        self.transport.write(answer)
        self._hang_up()

    def _hang_up(self) -> None:
        assert self.transport is not None
        self.transport.close()
        self._limit(self._limits.linger, self._abort)

    def _abort(self) -> None:
        assert self.transport is not None
        self.transport.abort()

    def _limit(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.lost.is_set():
            self._timer = self._loop.call_later(seconds, then)


def last_response(status: int) -> web.Response:
    """Return an answer that ends its connection."""
    response = web.Response(status=status, headers=SERVER)
    response.force_close()
    return response


async def _readable(sock: socket.socket) -> None:
    """Wait until a connection can be accepted without blocking.

    The loop's own `sock_accept` would lose a connection that arrives while the call is cancelled.
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
    """An acceptor of connections from a listening socket; it closes some of them when there are too many.

    At the limit, a new connection replaces an idle one, on which the server waits for its client. The server
    closes the longest idle connection of the client with the most connections. If that client has no idle
    connection, the server closes one of another client that has been idle for a moment. So a client that
    opens many connections excludes no other client. Without idle connections, new ones wait. The same rule
    applies when file descriptors are scarce: then the number of connections does not grow, but each server
    can have at least one, for which a descriptor is reserved.
    """

    def __init__(
        self,
        listening: socket.socket,
        server: web.Server,
        certificate: ServedCertificate | None,
        limits: Limits,
    ) -> None:
        listening.setblocking(False)
        self._listening = listening
        self._server = server
        self._limits = limits
        self._outermost: Callable[[ClientConnection], asyncio.BaseProtocol] = lambda connection: connection
        if certificate is not None:
            from manager.server.tls_transport import TlsTransport, Turn  # noqa: PLC0415 - 0.4 MB: for HTTPS alone

            turn = Turn()
            self._outermost = lambda each: TlsTransport(each, certificate.context, limits, turn)
        self._open: dict[ClientConnection, asyncio.Task[None]] = {}
        """The connections in the order of their beginning, with their tasks."""
        self._changed = asyncio.Event()
        self._reserve = Reserve()
        self._failures = Repeats()

    async def accept(self) -> None:
        """Accept connections until cancelled."""
        with self._reserve:
            while True:
                try:
                    await _readable(self._listening)
                    accepted, client = self._accept_one()
                except (BlockingIOError, ConnectionError):
                    continue  # closed before its turn
                except OSError as error:
                    # `open_files` logs a lack of descriptors for the whole process.
                    if error.errno not in NONE_LEFT and (times := self._failures.count()) is not None:
                        _log.warning("cannot accept a connection", error=str(error), times=times)
                    self._make_room("")
                    await self._wait_for_change(_ACCEPT_PAUSE)
                    self._reserve.take()
                    continue
                if not self._reserve.take():
                    self._make_room(client)
                try:
                    await self._wait_for_room(client, scarce=are_scarce())
                except BaseException:
                    accepted.close()
                    raise
                self._begin(accepted, client)

    async def drain(self, accepting: asyncio.Task[None]) -> None:
        """Accept waiting connections only; return when all requests are answered, or after the time limit.

        `accepting` is the task of `accept`. A client without any data so far has at most a second to send it.
        """
        accepting.cancel()
        await asyncio.wait([accepting])
        with suppress(OSError):
            while len(self._open) < self._limits.connections and not are_scarce():
                self._begin(*self._accept_one())
        self._listening.close()  # new clients connect to another replica at once
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        end = loop.time() + self._limits.drain
        first_until = loop.time() + min(_FIRST_REQUEST, self._limits.drain)
        while (now := loop.time()) < end:
            there = [each for each in self._open if not each.over.is_set()]
            if now < first_until and any(not each.has_asked for each in there):
                await self._wait_for_change(first_until - now)
            elif any(each.is_busy for each in there):
                await self._wait_for_change(end - now)
            else:
                return

    async def end(self) -> None:
        """Close all connections at once, and return when they are closed."""
        for connection in self._open:
            connection.over.set()
        if self._open:
            await asyncio.wait(tuple(self._open.values()))

    def _accept_one(self) -> tuple[socket.socket, str]:
        try:
            accepted, address = self._listening.accept()
        except OSError as error:
            if error.errno not in NONE_LEFT or not self._reserve.give_up():
                raise
            try:
                accepted, address = self._listening.accept()
            except OSError:
                self._reserve.take()
                raise
        return accepted, client_at(address[0] if isinstance(address, tuple) else None)

    def _begin(self, accepted: socket.socket, client: str) -> None:
        accepted.setblocking(False)
        connection = ClientConnection(self._server, self._changed.set, self._limits, client=client)
        task = asyncio.create_task(self._attend(connection, accepted), name="http-connection")
        task.add_done_callback(functools.partial(self._forget, connection))
        self._open[connection] = task

    async def _attend(self, connection: ClientConnection, accepted: socket.socket) -> None:
        protocol, connect = self._outermost(connection), asyncio.get_running_loop().connect_accepted_socket
        try:
            transport, _ = await connect(lambda: protocol, accepted)
        except BaseException:
            accepted.close()
            raise
        await connection.over.wait()
        transport.abort()
        await connection.lost.wait()

    def _forget(self, connection: ClientConnection, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a connection failed because of an error in the server", exc_info=error)
        del self._open[connection]
        self._reserve.take()
        self._changed.set()

    async def _wait_for_room(self, client: str, *, scarce: bool) -> None:
        most = self._limits.connections
        if scarce:
            most = min(most, max(1, len(self._open)))
        while len(self._open) >= most:
            self._make_room(client)
            await self._wait_for_change(self._limits.eviction)

    def _make_room(self, newcomer: str) -> None:
        """Close a connection to make room for a `newcomer`, if one may be closed and none is closing yet."""
        if any(each.over.is_set() for each in self._open):
            return
        having = Counter(each.client for each in self._open)
        having[newcomer] += 1
        most = max(having.values())
        latest = asyncio.get_running_loop().time() - self._limits.eviction
        candidates = [
            ((-having[each.client], since), each)
            for each in self._open
            if (since := each.client_idle_since) is not None
            and (since <= latest or (not each.answering and having[each.client] == most))
        ]
        if candidates:
            min(candidates, key=itemgetter(0))[1].over.set()

    async def _wait_for_change(self, within: float) -> None:
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._changed.wait()
