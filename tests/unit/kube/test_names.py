"""Connections to a host whose name servers are slow or silent, on both event loops."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from manager.kube import names
from manager.kube.errors import Unreachable
from manager.kube.http_wire import HttpWire
from manager.kube.wire import WireRequest
from tests.unit.kube.servers import LocalServer, wire_to

pytestmark = [pytest.mark.each_loop, pytest.mark.usefixtures("closing")]

HOST, SLOW_HOST = "api.test", "slow.test"
_real = socket.getaddrinfo


class NameServer:
    """Knows two hosts, which are this machine; answers when it is to."""

    def __init__(self) -> None:
        self.questions = 0
        self.asked = threading.Semaphore(0)
        self.error: Exception | None = None
        self.slow = False
        self.answers = threading.Event()

    def getaddrinfo(self, host: str, port: int, *args: Any, flags: int = 0, **further: Any) -> list[Any]:
        if host.endswith(".test") and not flags:
            self.questions += 1
            self.asked.release()
            if self.slow or host == SLOW_HOST:
                self.answers.wait()
            if self.error is not None:
                raise self.error
            host = "127.0.0.1"
        return _real(host, port, *args, flags=flags, **further)


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    name_server = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", name_server.getaddrinfo)
    monkeypatch.setattr(names, "PATIENCE", 0.01)
    yield name_server
    name_server.answers.set()


def by_name(server: LocalServer, host: str = HOST) -> str:
    return f"http://{host}:{server.port}"


async def fetch(wire: HttpWire) -> int:
    async with wire.exchange(WireRequest("GET", "/", {})) as response:
        await response.read()
        return response.status


async def test_name_lookup_is_shared_by_concurrent_connections(name_server: NameServer):
    async with LocalServer() as server, wire_to(by_name(server, SLOW_HOST)) as wire:
        asking = [asyncio.create_task(fetch(wire)) for _ in range(20)]
        await asyncio.to_thread(name_server.asked.acquire)
        name_server.answers.set()
        assert await asyncio.gather(*asking) == [200] * 20
    assert name_server.questions == 1


async def test_look_ups_of_one_wire_that_are_slow_do_not_delay_another(name_server: NameServer):
    """Such as the lease's, which has only seconds."""
    async with (
        LocalServer() as server,
        wire_to(by_name(server, SLOW_HOST)) as wire,
        wire_to(by_name(server)) as lane,
    ):
        slow = [asyncio.create_task(fetch(wire)) for _ in range(100)]
        await asyncio.to_thread(name_server.asked.acquire)
        assert await fetch(lane) == 200
        assert not any(each.done() for each in slow)
        name_server.answers.set()
        assert await asyncio.gather(*slow) == [200] * 100


async def test_a_look_up_that_is_slow_or_fails_leaves_the_last_addresses(name_server: NameServer):
    async with LocalServer() as server, wire_to(by_name(server)) as wire:
        assert await fetch(wire) == 200
        wire.abort()
        name_server.slow = True
        assert await fetch(wire) == 200
        wire.abort()
        assert await fetch(wire) == 200
        assert name_server.questions == 2, "one that is under way is not asked for again"
        name_server.error = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        name_server.answers.set()
        wire.abort()
        assert await fetch(wire) == 200
        assert server.connections == 4


async def test_a_host_that_was_never_found_is_not_reached_and_asked_for_again(name_server: NameServer):
    name_server.error = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    async with LocalServer() as server, wire_to(by_name(server)) as wire:
        for _ in range(2):
            with pytest.raises(Unreachable, match="Temporary failure in name resolution"):
                await fetch(wire)
        name_server.error = None
        assert await fetch(wire) == 200


async def test_an_address_is_not_looked_up(name_server: NameServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(threading, "Thread", None)
    async with LocalServer() as server, wire_to(server.url) as wire:
        assert await fetch(wire) == 200
    assert name_server.questions == 0
