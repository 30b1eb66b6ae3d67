"""TLS transport of the server, with a client that makes its own TLS records."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import cast

import pytest

from manager.server import Limits, tls_transport
from manager.server.tls_transport import TlsTransport, Turn
from manager.tls.served import SelfSigned
from tests.support.certificates import trusting

pytestmark = pytest.mark.each_loop

MUCH = 3_000_000
LONG = 30.0


class Heard(asyncio.Protocol):
    """Protocol that records the data that the server receives."""

    def __init__(self) -> None:
        self.transport = cast("asyncio.Transport", None)
        self.received = bytearray()
        self.by_turn = Counter[int]()
        self.turn = 0
        self.told: list[str] = []
        self.made, self.ended, self.lost = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.made.set()

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.by_turn[self.turn] += len(data)

    async def until(self, size: int) -> None:
        """Wait until the server has received `size` bytes."""
        async with asyncio.timeout(10):
            while len(self.received) < size:  # noqa: ASYNC110 - the data come in many parts
                await asyncio.sleep(0)

    def eof_received(self) -> None:
        self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


async def count_turns(*all_of_them: Heard) -> None:
    for turn in itertools.count():
        for each in all_of_them:
            each.turn = turn
        await asyncio.sleep(0)


async def happens(event: asyncio.Event) -> None:
    """Wait for an event, but only for some seconds."""
    async with asyncio.timeout(10):
        await event.wait()


class Client:
    """TLS client that makes its own records, and sends them when the test says so."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = trusting().wrap_bio(self._incoming, self._outgoing)

    async def shake_hands(self) -> None:
        while True:
            try:
                self.session.do_handshake()
            except ssl.SSLWantReadError:
                self.writer.write(self._outgoing.read())
                self._incoming.write(await self.reader.read(65536))
            else:
                self.writer.write(self._outgoing.read())
                return

    def records(self, data: bytes, *, of: int) -> bytes:
        """Return TLS records that together contain `data`; each record has `of` bytes of `data`."""
        for start in range(0, len(data), of):
            self.session.write(data[start : start + of])
        return self._outgoing.read()

    async def rest(self) -> bytearray:
        """Return all data until the server's TLS close alert; raise an error if the alert is missing."""
        received = bytearray()
        async with asyncio.timeout(10):
            while True:
                try:
                    part = self.session.read(65536)
                except ssl.SSLZeroReturnError:
                    return received
                except ssl.SSLWantReadError:
                    came = await self.reader.read(65536)
                    assert came, "the connection ends without a TLS close alert"
                    self._incoming.write(came)
                else:
                    if not part:
                        return received
                    received += part

    def end_session(self) -> bytes:
        with pytest.raises(ssl.SSLWantReadError):
            self.session.unwrap()
        return self._outgoing.read()


Connect = Callable[..., AbstractAsyncContextManager[tuple[Heard, Client]]]


@pytest.fixture(scope="module")
def context() -> ssl.SSLContext:
    return SelfSigned().pair(datetime.now(UTC)).context()


@pytest.fixture
def connected(context: ssl.SSLContext) -> Connect:
    @asynccontextmanager
    async def scene(
        *, linger: float = LONG, turn: Turn | None = None, greets: bool = True
    ) -> AsyncIterator[tuple[Heard, Client]]:
        heard, limits, turn = Heard(), Limits(linger=linger), turn or Turn()
        server = await asyncio.get_running_loop().create_server(
            lambda: TlsTransport(heard, context, limits, turn), "127.0.0.1", 0
        )
        async with server:
            client = Client(*await asyncio.open_connection(*server.sockets[0].getsockname()))
            try:
                if greets:
                    await client.shake_hands()
                    await heard.made.wait()
                yield heard, client
            finally:
                client.writer.transport.abort()
                await happens(heard.lost)

    return scene


async def test_tls_transport_drops_a_client_that_sends_one_byte_per_record(connected: Connect):
    async with connected() as (heard, client):
        client.writer.write(client.records(bytes(20_000), of=1))
        await happens(heard.lost)
        assert 0 < len(heard.received) < 5_000


@pytest.mark.parametrize("size", [100, 16 * 1024])
async def test_tls_transport_reads_at_most_64_kb_per_event_loop_iteration(connected: Connect, size: int):
    async with connected() as (heard, client):
        records = client.records(bytes(MUCH), of=size)
        counting = asyncio.create_task(count_turns(heard))
        for start in range(0, len(records), 600_000):
            # The sockets' buffers are full before the loop continues.
            client.writer.write(records[start : start + 600_000])
            await client.writer.drain()
        await heard.until(MUCH)
        counting.cancel()
        # A counted turn may overlap two iterations of the loop.
        assert max(heard.by_turn.values()) <= 2 * 64 * 1024


async def test_tls_transports_of_a_server_share_one_reading_time_limit_per_event_loop_iteration(
    connected: Connect, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tls_transport, "_PORT_SHARE", 0.0)
    turn = Turn()
    async with AsyncExitStack() as stack:
        scenes = [await stack.enter_async_context(connected(turn=turn)) for _ in range(5)]
        everybody = [heard for heard, _ in scenes]
        counting = asyncio.create_task(count_turns(*everybody))
        for _, client in scenes:
            client.writer.write(client.records(bytes(MUCH // 10), of=1000))
        for heard in everybody:
            await heard.until(MUCH // 10)
        counting.cancel()
        turns = Counter[int]()
        for heard in everybody:
            turns.update(heard.by_turn.keys())
        assert max(turns.values()) <= 2  # a counted turn may overlap two iterations of the loop


async def test_tls_read_time_per_loop_iteration_is_limited_to_5_ms(monkeypatch: pytest.MonkeyPatch):
    now = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    turn = Turn()
    assert not turn.is_over()
    now += 0.0049
    assert not turn.is_over()
    now += 0.0002
    assert turn.is_over()


async def test_tls_transport_delivers_all_data_when_the_client_reads_slowly(connected: Connect):
    sent = bytes(range(256)) * 64 * 1024  # more than socket buffers hold
    async with connected() as (heard, client):
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        heard.transport.write(sent)
        heard.transport.write(b"the end")
        await asyncio.sleep(0.05)
        assert heard.told == ["pause"]
        heard.transport.close()
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert await client.rest() == sent + b"the end"
        assert heard.told == ["pause", "resume"]


@pytest.mark.parametrize("confirms", [True, False])
async def test_tls_transport_close_delivers_the_last_data_to_a_client_that_still_sends(
    connected: Connect, confirms: bool
):
    async with connected(linger=LONG if confirms else 0.5) as (heard, client):
        client.writer.write(client.records(bytes(1_000_000), of=1000))
        heard.transport.write(b"enough")
        heard.transport.close()
        assert await client.rest() == b"enough"
        assert not heard.lost.is_set()
        if confirms:
            client.writer.close()
        await happens(heard.lost)


@pytest.mark.parametrize("how", ["session", "connection"])
async def test_tls_transport_delivers_all_data_of_a_client_that_has_closed(connected: Connect, how: str):
    async with connected() as (heard, client):
        client.writer.write(client.records(b"the last", of=3))
        if how == "session":
            client.writer.write(client.end_session())
        else:
            client.writer.write_eof()
        await happens(heard.ended)
        assert heard.received == b"the last"
        assert heard.transport.is_closing()
        assert await client.rest() == b""


async def test_tls_transport_gives_its_protocol_at_most_128_kb_while_reading_is_paused(connected: Connect):
    async with connected() as (heard, client):
        heard.transport.pause_reading()
        client.writer.write(client.records(bytes(MUCH), of=10_000))
        await asyncio.sleep(0.05)
        assert len(heard.received) <= 128 * 1024
        heard.transport.resume_reading()
        await heard.until(MUCH)


async def test_tls_transport_reports_the_address_of_the_client(connected: Connect):
    async with connected() as (heard, client):
        assert heard.transport.get_extra_info("peername") == client.writer.get_extra_info("sockname")
        assert heard.transport.get_extra_info("sslcontext") is not None


async def test_tls_transport_answers_an_invalid_handshake_with_a_tls_alert(connected: Connect):
    async with connected(greets=False) as (heard, client):
        client.writer.write(b"\x16\x03\x01\x00\x05hello")
        async with asyncio.timeout(10):
            alert = await client.reader.read(100)
        assert alert[:1] == b"\x15"
        assert not heard.made.is_set()
