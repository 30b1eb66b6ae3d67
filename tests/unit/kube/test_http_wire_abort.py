"""`abort` on both event loops: no data in flight arrives after it."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
import trustme

from manager.kube.credentials import FixedCredentials, Obtained
from manager.kube.errors import ConnectionLost, TransportError
from manager.kube.http_wire import HttpWire
from manager.kube.wire import WireRequest
from tests.unit.kube.servers import Answer, LocalServer, wire_to

pytestmark = [pytest.mark.each_loop, pytest.mark.usefixtures("closing")]

WRITE = WireRequest("PUT", "/api", {}, b"body")

SIZE = 50_000_000
"""Bytes that no buffer on the way takes at once."""


async def fetch(wire: HttpWire, request: WireRequest = WRITE) -> int:
    async with wire.exchange(request) as response:
        await response.read()
        return response.status


async def receive(connection: socket.socket) -> int:
    """Take all that arrives over a connection up to its reset; answers how much it was."""
    received = 0
    for _ in range(5):  # a real server leaves the client's event loop its turns
        await asyncio.sleep(0)
    with contextlib.suppress(ConnectionResetError):
        while data := await asyncio.get_running_loop().sock_recv(connection, 1_000_000):
            received += len(data)
        raise AssertionError("the connection was closed in good order")
    return received


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
async def test_requests_in_flight_are_lost_and_the_server_sees_a_reset(authority: trustme.CA, tls: bool):
    given = authority if tls else None
    async with LocalServer(given) as server, wire_to(server.url, given) as wire:
        never = asyncio.get_running_loop().create_future()
        server.answer = lambda _: never
        writes = [asyncio.create_task(fetch(wire)) for _ in range(3)]
        await server.until(lambda: len(server.requests) == 3)
        wire.abort()
        for write in writes:
            with pytest.raises(ConnectionLost):
                await write
        server.answer = lambda _: Answer()
        assert await fetch(wire) == 200
        assert server.connections == 4
        never.set_result(Answer(b"x" * 10_000_000))
        await server.until(lambda: len(server.errors) == 3)
        assert {type(error) for error in server.errors} <= {ConnectionResetError, BrokenPipeError}


async def test_bytes_that_wait_in_a_buffer_never_arrive():
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        async with wire_to(f"http://127.0.0.1:{listener.getsockname()[1]}") as wire:
            write = asyncio.create_task(fetch(wire, WireRequest("PUT", "/api", {}, b"x" * SIZE)))
            accepted, _ = await loop.sock_accept(listener)
            with accepted:
                # The server reads a little, and is then too slow for all that comes.
                received = len(await loop.sock_recv(accepted, 10))
                wire.abort()
                with pytest.raises(ConnectionLost):
                    await write
                assert received + await receive(accepted) < SIZE


async def test_a_write_that_is_given_up_is_not_delivered_afterwards():
    loop = asyncio.get_running_loop()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        async with wire_to(f"http://127.0.0.1:{listener.getsockname()[1]}") as wire:
            # Small enough for the system to take it all, and more than the server's side holds.
            size = 200_000
            write = asyncio.create_task(fetch(wire, WireRequest("PUT", "/api", {}, b"x" * size)))
            accepted, _ = await loop.sock_accept(listener)
            with accepted:
                received = len(await loop.sock_recv(accepted, 10))
                write.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await write
                assert received + await receive(accepted) < size


async def test_a_write_that_is_just_connecting_is_not_sent(authority: trustme.CA):
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        async with wire_to(f"https://127.0.0.1:{listener.getsockname()[1]}", authority) as wire:
            write = asyncio.create_task(fetch(wire))
            accepted, _ = await loop.sock_accept(listener)
            with accepted:
                await loop.sock_recv(accepted, 10)  # the TLS handshake has begun
                wire.abort()
                with pytest.raises(TransportError):
                    await write


async def test_a_write_that_waits_for_a_free_connection_is_not_sent(authority: trustme.CA):
    async with LocalServer(authority) as server, wire_to(server.url, authority, connections=1) as wire:
        never = asyncio.get_running_loop().create_future()
        server.answer = lambda _: never
        writes = [asyncio.create_task(fetch(wire)) for _ in range(5)]
        await server.until(lambda: server.requests)
        wire.abort()
        for write in writes:
            with pytest.raises(ConnectionLost):
                await write
        assert len(server.requests) == 1


class SlowCredentials(FixedCredentials):
    """Comes with the credentials once it may."""

    def __init__(self) -> None:
        super().__init__(None)
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def obtain(self, *, rejected: bool) -> Obtained:
        self.asked.set()
        await self.go_on.wait()
        return await super().obtain(rejected=rejected)


async def test_a_write_that_waits_for_credentials_is_not_sent(authority: trustme.CA):
    credentials = SlowCredentials()
    async with (
        LocalServer(authority) as server,
        wire_to(server.url, authority, credentials=credentials) as wire,
    ):
        write = asyncio.create_task(fetch(wire))
        await credentials.asked.wait()
        wire.abort()
        credentials.go_on.set()
        with pytest.raises(ConnectionLost):
            await write
        assert await fetch(wire) == 200
        assert len(server.requests) == 1


async def test_aborting_what_was_never_used_does_nothing(authority: trustme.CA):
    async with LocalServer(authority) as server, wire_to(server.url, authority) as wire:
        wire.abort()
        assert await fetch(wire) == 200
        wire.abort()
        wire.abort()
        assert await fetch(wire) == 200
