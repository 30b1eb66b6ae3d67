"""Where clients connect. What they send is looked at, and passed on to gRPC's server if it can be borne."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Final, cast

from petstore.bounds import CallRefused, Places
from petstore.frames import FromClient, FromServer, Records, Unbearable
from petstore.limits import Limits
from petstore.tls import Secured, ServerTls

__all__ = ["Front", "open_front"]

_CHUNK: Final = 16 * 1024
"""Bytes of one client that are worked on before others have their turn."""

_AT_ONCE: Final = 500.0
_A_SECOND: Final = 100.0
"""Frames of one client that bring nothing; what is beyond has to wait."""

_GATHERING: Final = 0.001
"""Seconds in which answers of a stream gather, as each costs less among others."""

_LEAVING: Final = 8
"""Connections that have given way and are still there, beside those that there may be."""

_LAST_SECONDS: Final = 1.0
"""What clients have to take the last that was sent to them."""

_log = logging.getLogger("petstore.front")


@contextlib.asynccontextmanager
async def open_front(limits: Limits, tls: ServerTls | None) -> AsyncIterator[Front]:
    """One that does not listen yet, and is closed in the end. Raises OSError: no file can be made."""
    # Of this user alone: who could connect here would pass by all that is looked at.
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="petstore-")
    front = Front(folder.name, limits, tls)
    renewing = asyncio.create_task(tls.keep_current()) if tls is not None else None
    try:
        yield front
    finally:
        if renewing is not None:
            renewing.cancel()
            await asyncio.wait([renewing])
        await front.close()
        await asyncio.to_thread(folder.cleanup)


class Front:
    """Stands between clients and gRPC's server, which has to listen at `target`."""

    def __init__(self, folder: str, limits: Limits, tls: ServerTls | None) -> None:
        self._folder = folder
        self._limits = limits
        self._tls = tls
        self._places = Places(limits.connections, "connections")
        self._servers: list[asyncio.Server] = []
        self._tasks: dict[asyncio.Task[None], _Client] = {}
        self._names: dict[str, str] = {}
        self._number = 0
        self._buffer = memoryview(bytearray(_CHUNK))

    @property
    def target(self) -> str:
        """As gRPC names it."""
        return f"unix:{self._folder}/grpc"

    def client_of(self, peer: str) -> str:
        """The address of the client that gRPC knows as `peer`."""
        return self._names.get(peer, peer)

    async def listen(self, sockets: Iterable[socket.socket]) -> None:
        """Let clients in who come there."""
        loop = asyncio.get_running_loop()
        for each in sockets:
            self._servers.append(await loop.create_server(self._meet, sock=each))

    def stop_listening(self) -> None:
        """Let nobody in any more; who is there stays."""
        for server in self._servers:
            server.close()

    async def close(self) -> None:
        """Cut off who is there."""
        self.stop_listening()
        for client in self._tasks.values():
            client.close()
        await asyncio.gather(*self._tasks)

    def _meet(self) -> _Client:
        secured = self._tls.connection() if self._tls is not None else None
        return _Client(self._buffer, secured, self._begin)

    def _begin(self, client: _Client) -> None:
        if len(self._tasks) >= self._limits.connections + _LEAVING:
            client.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(client))
        self._tasks[task] = client
        task.add_done_callback(self._tasks.pop)

    async def _serve(self, client: _Client) -> None:
        host, port = client.address
        try:
            place = self._places.take(host, client.abort)
        except CallRefused:
            client.abort()
            return
        self._number += 1
        peer = f"{self._folder}/{self._number}"
        server: _Server | None = None
        try:
            async with asyncio.timeout(self._limits.silent_seconds):
                await client.opened.wait()
            if not client.over.is_set():
                way = await asyncio.to_thread(_connect, f"{self._folder}/grpc", peer)
                self._names[f"unix:{peer}"] = f"{host}:{port}"
                loop = asyncio.get_running_loop()
                calls = self._limits.calls_of_one
                _, server = await loop.create_unix_connection(
                    lambda: _Server(self._buffer, client, calls), sock=way
                )
            await client.over.wait()
        except (OSError, TimeoutError) as error:
            _log.debug("%s:%s is cut off: %s", host, port, error)
        finally:
            await client.end()
            if server is not None:
                await server.end()
            self._places.leave(place)
            self._names.pop(f"unix:{peer}", None)


def _connect(path: str, own: str) -> socket.socket:
    """A way to gRPC's server, which knows who comes by it as `own`; blocks."""
    way = socket.socket(socket.AF_UNIX)
    try:
        way.settimeout(_LAST_SECONDS)
        way.bind(own)
        try:
            way.connect(path)
        finally:
            Path(own).unlink()
        way.setblocking(False)
    except BaseException:
        way.close()
        raise
    return way


def _max_calls(number: int) -> bytes:
    """As a server's settings have it, which are the first that it sends."""
    return b"\0\3" + number.to_bytes(4)


class _Side(asyncio.BufferedProtocol):
    """One of two connections that are each other's `other`: what comes here is sent there."""

    other: _Side | None = None

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self._transport: asyncio.Transport | None = None
        self._waits_for: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._gone = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None
        if self.other is not None:
            self.other.close()
        self._gone.set()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        # The buffer is used by others before all of it is sent.
        self.received(bytes(self._buffer[:nbytes]))

    def received(self, data: bytes) -> None:
        """Deal with what came."""
        raise NotImplementedError

    def send(self, data: bytes) -> None:
        """Send it here, if it is anything."""
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.wait_for("room")

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.go_on("room")

    def wait_for(self, what: str, seconds: float | None = None) -> None:
        """Read no more until `go_on` with the same, or for some seconds."""
        if self._transport is None or self._transport.is_closing():
            return
        if not self._waits_for:
            self._transport.pause_reading()
        self._waits_for.add(what)
        if seconds is not None:
            self._timer = self._loop.call_later(seconds, self.go_on, what)

    def go_on(self, what: str) -> None:
        """Read again, unless something else is waited for."""
        if self._transport is None or self._transport.is_closing() or what not in self._waits_for:
            return
        self._waits_for.remove(what)
        if not self._waits_for:
            self._transport.resume_reading()

    def close(self) -> None:
        """Close it once all that was to be sent has been."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    async def end(self) -> None:
        """Close it, at once if it does not take what was sent to it."""
        self.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                await self._gone.wait()
        self.abort()
        await self._gone.wait()


class _Client(_Side):
    """A client, of whom nothing is passed on before it has said that it speaks HTTP/2."""

    def __init__(self, buffer: memoryview, secured: Secured | None, begin: Callable[[_Client], None]) -> None:
        """`begin` is called once it is there."""
        super().__init__(buffer)
        self._secured = secured
        self._begin = begin
        self._records = Records()
        self._frames = FromClient()
        self._early = b""
        self._credit = _AT_ONCE
        self._credited_at = self._loop.time()
        self.address = ("", 0)
        self.opened = asyncio.Event()
        """It has said that it speaks HTTP/2, or it is over."""
        self.over = asyncio.Event()
        """Nothing more is read from it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.address = transport.get_extra_info("peername")[:2]
        self._begin(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._end()

    def close(self) -> None:
        super().close()
        self._end()

    def _end(self) -> None:
        self.over.set()
        self.opened.set()

    def received(self, data: bytes) -> None:
        cost = 0
        try:
            if self._secured is not None:
                cost = self._records.look(data)
                try:
                    data = self._secured.received(data)
                finally:
                    self.send(self._secured.to_send())
            cost += self._frames.look(data)
        except (Unbearable, ssl.SSLError) as error:
            _log.debug("%s:%s is cut off: %s", *self.address, error)
            self.close()
            return
        if self.other is not None:
            self.other.send(data)
        else:
            self._early += data
            if self._frames.opened:
                self.wait_for("gRPC")
                self.opened.set()
        self._credit -= cost
        if self._credit < 0:
            self._pay()

    def _pay(self) -> None:
        """Have it wait for as long as it takes to pay for what it has sent."""
        now = self._loop.time()
        self._credit = min(_AT_ONCE, self._credit + (now - self._credited_at) * _A_SECOND)
        self._credited_at = now
        if self._credit < 0:
            _log.debug("%s:%s has to wait: it sends too many frames without content", *self.address)
            self.wait_for("credit", -self._credit / _A_SECOND)

    def pass_on(self, server: _Server) -> None:
        """To there, what has come and what comes."""
        self.other = server
        server.send(self._early)
        self._early = b""
        self.go_on("gRPC")

    def answer(self, data: bytes, earned: int) -> None:
        """Send it what the server says, which lets it send more itself."""
        self._credit = min(_AT_ONCE, self._credit + earned)
        self.send(data if self._secured is None else self._secured.sealed(data))


class _Server(_Side):
    """gRPC's server, as one client has it."""

    def __init__(self, buffer: memoryview, client: _Client, calls: int) -> None:
        """The client is told that it may have so many calls at once."""
        super().__init__(buffer)
        self.other = self._client = client
        self._calls = calls
        self._begun = False
        self._frames = FromServer()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._client.pass_on(self)

    def received(self, data: bytes) -> None:
        if not self._begun:
            # gRPC counts a call for a moment longer than its client does, and would refuse the one that
            # the client then begins: so it takes twice as many as it is said to.
            self._begun = True
            data = data.replace(_max_calls(2 * self._calls), _max_calls(self._calls), 1)
        self._client.answer(data, self._frames.look(data))
        if self._frames.streams:
            self.wait_for("more", _GATHERING)
