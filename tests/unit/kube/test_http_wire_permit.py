"""A write leaves only while it is permitted, up to the moment at which its bytes are handed to the socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable

import pytest
import trustme

from manager.kube.http_wire import HttpWire
from manager.kube.wire import WireRequest
from tests.unit.kube.servers import Answer, LocalServer, wire_to

BODIES = {"none": None, "empty": b"", "small": b"body", "large": b"x" * 3_000_000}


class NotPermittedError(Exception):
    pass


def permit(times: int) -> Callable[[], None]:
    """Permits that often, and then no more: as if the process had been frozen in between."""
    left = iter(range(times))

    def ask() -> None:
        if next(left, None) is None:
            raise NotPermittedError

    return ask


@pytest.fixture
async def wire(server: LocalServer, authority: trustme.CA) -> AsyncIterator[HttpWire]:
    async with wire_to(server.url, authority, connections=1) as wire:
        yield wire


async def put(wire: HttpWire, body: bytes | None = b"body", permit: Callable[[], None] | None = None) -> int:
    async with wire.exchange(WireRequest("PUT", "/api", {}, body, permit=permit)) as response:
        await response.read()
        return response.status


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_write_that_is_permitted_arrives_as_it_is(
    wire: HttpWire, server: LocalServer, body: bytes | None
):
    assert await put(wire, body, permit(100)) == 200
    (request,) = server.requests
    assert request.body == (body or b"")
    assert request.headers["Content-Length"] == str(len(body or b""))


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_write_that_is_no_longer_permitted_once_it_has_a_connection_is_not_sent(
    wire: HttpWire, server: LocalServer, body: bytes | None
):
    for _ in range(3):
        with pytest.raises(NotPermittedError):
            await put(wire, body, permit(0))
    assert server.requests == []
    # Nothing was begun on the connection, so that it is as good as new.
    assert await put(wire) == 200
    assert server.connections == 1


async def test_wire_asks_the_permit_of_a_write_after_the_wait_for_a_connection(
    wire: HttpWire, server: LocalServer
):
    blocked: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    server.answer = lambda _: blocked
    asked: list[int] = []
    first = asyncio.create_task(put(wire))
    await server.until(lambda: server.requests)
    second = asyncio.create_task(put(wire, permit=lambda: asked.append(len(server.requests))))
    for _ in range(3):
        await asyncio.sleep(0)
    assert asked == []
    blocked.set_result(Answer())
    await first
    await second
    assert asked == [1]


@pytest.mark.parametrize("body", [b"", b"body", b"x" * 3_000_000], ids=["empty", "small", "large"])
async def test_wire_sends_no_byte_of_a_write_that_is_not_permitted(body: bytes):
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        async with wire_to(f"http://127.0.0.1:{listener.getsockname()[1]}", connections=1) as wire:
            with pytest.raises(NotPermittedError):
                async with asyncio.timeout(10):  # the server does not answer a request that arrives after all
                    await put(wire, body, permit(0))
        accepted, _ = await loop.sock_accept(listener)
        with accepted, contextlib.suppress(ConnectionResetError):
            assert await loop.sock_recv(accepted, 1) == b""


async def test_a_large_write_that_is_no_longer_permitted_half_way_is_never_complete(
    wire: HttpWire, server: LocalServer
):
    with pytest.raises(NotPermittedError):
        await put(wire, b"x" * 3_000_000, permit(2))
    assert await put(wire) == 200
    assert [request.body for request in server.requests] == [b"body"]
    assert server.connections == 2
