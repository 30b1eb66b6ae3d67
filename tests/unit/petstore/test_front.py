"""What comes below calls: frames, headers and connections of hostile clients, and honest ones among them."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from cryptography.x509 import DNSName

from petstore.front import Front, open_front
from petstore.limits import Limits
from petstore.proto import petstore_pb2 as pb
from petstore.tls import ServerTls, TlsFiles
from tests.support.certificates import Authority
from tests.support.petstores import LOOPBACK, Faults, local_store, pet

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 2, 3, 4, 5, 6, 8, 9,
)  # fmt: skip
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


HELLO = PREFACE + frame(SETTINGS)


class Beyond:
    """Stands where gRPC does, and keeps what is passed on to it."""

    def __init__(self) -> None:
        self.data = b""
        self.writers: list[asyncio.StreamWriter] = []
        self.came = asyncio.Condition()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with suppress(OSError):
            while data := await reader.read(65536):
                self.data += data
                async with self.came:
                    self.came.notify_all()
        writer.close()

    async def until(self, length: int) -> None:
        """Until so much has come."""
        async with asyncio.timeout(60), self.came:
            await self.came.wait_for(lambda: len(self.data) >= length)


class Scene:
    def __init__(self, front: Front, beyond: Beyond, port: int) -> None:
        self.front = front
        self.beyond = beyond
        self.port = port


@asynccontextmanager
async def standing(limits: Limits | None = None, tls: ServerTls | None = None) -> AsyncIterator[Scene]:
    beyond = Beyond()
    async with open_front(limits or Limits(), tls) as front:
        server = await asyncio.start_unix_server(beyond.serve, front.target.removeprefix("unix:"))
        try:
            sockets = await asyncio.to_thread(LOOPBACK.listen)
            await front.listen(sockets)
            yield Scene(front, beyond, sockets[0].getsockname()[1])
        finally:
            server.close()  # or else the loop is never closed: uvloop waits for it
    for writer in beyond.writers:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


class Client:
    """Sends bytes as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def flood(self, piece: bytes) -> None:
        """Send it again and again, until the connection is cut off."""
        with suppress(OSError):
            while True:
                await self.send(piece)

    async def is_cut_off(self) -> bool:
        """Whether it is, within a minute."""
        async with asyncio.timeout(60):
            with suppress(OSError):
                while await self.reader.read(65536):
                    pass
        return True

    def close(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def connected(
    port: int, address: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0), ssl=tls)
    client = Client(reader, writer)
    try:
        yield client
    finally:
        client.close()


SOME = b"\x00\x01a\x01b" * 800  # headers, as they are written out

NONSENSE = {
    "another protocol": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS where there is none": b"\x16\x03\x01\x02\x00\x01",
    "no settings": PREFACE + frame(PING, payload=b"12345678"),
    "a frame that is too long": HELLO + (20_000).to_bytes(3) + bytes(6),
    "a promise": HELLO + frame(PUSH_PROMISE, END_HEADERS, 1, b"1234"),
    "headers that go on without having begun": HELLO + frame(CONTINUATION, END_HEADERS, 1, b""),
    "headers with others in between": HELLO + frame(HEADERS, 0, 1) + frame(PING, payload=b"12345678"),
    "headers that go on elsewhere": HELLO + frame(HEADERS, 0, 1) + frame(CONTINUATION, 0, 3),
}


@pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE)
async def test_what_is_no_http_2_is_cut_off(data: bytes):
    async with standing() as scene, connected(scene.port) as client:
        await client.send(data)
        assert await client.is_cut_off()


@pytest.mark.parametrize("piece", [SOME, b""], ids=["full", "empty"])
async def test_headers_without_end_are_cut_off(piece: bytes):
    async with standing() as scene, connected(scene.port) as client:
        await client.send(HELLO + frame(HEADERS, 0, 1, SOME))
        await client.flood(frame(CONTINUATION, 0, 1, piece) * 100)
        assert await client.is_cut_off()
        assert len(scene.beyond.data) < 70_000


async def test_headers_in_many_frames_that_end_are_passed_on():
    data = HELLO + frame(HEADERS, 0, 1, SOME) + frame(CONTINUATION, 0, 1, SOME)
    data += frame(CONTINUATION, END_HEADERS, 1, SOME) + frame(DATA, END_STREAM, 1, b"x" * 16_384)
    async with standing() as scene, connected(scene.port) as client:
        for at in range(0, len(data), 1009):  # which ends nowhere that a frame does
            await client.send(data[at : at + 1009])
        await scene.beyond.until(len(data))
        assert scene.beyond.data == data


FLOODS = {
    "settings": frame(SETTINGS),
    "settings of many values": frame(SETTINGS, payload=b"\0\4\0\0\xff\xff" * 2000),
    "pings": frame(PING, payload=b"12345678"),
    "answers to pings that never were": frame(PING, ACK, payload=b"12345678"),
    "priorities": frame(PRIORITY, stream=1, payload=b"\0\0\0\0\x10"),
    "more and more room": frame(WINDOW_UPDATE, payload=b"\0\0\0\1"),
    "frames of an unknown kind": frame(0xEE, payload=b"x" * 1000),
    "data without any": frame(DATA, stream=1),
    "data byte by byte": frame(DATA, stream=1, payload=b"x"),
    "ends of what is over": frame(DATA, END_STREAM, 1),
    "calls that are begun and given up": (
        frame(HEADERS, END_HEADERS | END_STREAM, 1) + frame(RST_STREAM, stream=1, payload=b"\0\0\0\x08")
    ),
    "calls that are begun": frame(HEADERS, END_HEADERS, 1),
}


@pytest.mark.parametrize("piece", FLOODS.values(), ids=FLOODS)
async def test_frames_that_bring_nothing_have_to_wait(piece: bytes, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, "petstore.front")
    now = asyncio.get_running_loop().time
    async with standing() as scene, connected(scene.port) as client:
        begun = now()
        await client.send(HELLO)
        flood = asyncio.create_task(client.flood(piece * 2000))
        await until_it_waits(caplog)
        passed = len(scene.beyond.data)
        # Some at once, some each second, and what was read before it was looked at.
        assert passed <= (500 + 100 * (now() - begun)) * len(piece) + 2 * 16_384
        # And others do not.
        async with connected(scene.port) as honest:
            await honest.send(HELLO)
            await scene.beyond.until(passed + len(HELLO))
        client.close()
        await flood


async def until_it_waits(caplog: pytest.LogCaptureFixture) -> None:
    """And then a little longer, in which it goes on."""
    async with asyncio.timeout(60):
        while not any("has to wait" in line for line in caplog.messages):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)


async def test_honest_clients_never_have_to_wait(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, "petstore.front")
    faults = Faults()
    async with local_store(faults=faults) as store:
        for _ in range(600):
            await store.client.delete(["x"])
        await asyncio.gather(*(store.client.delete(["x"] * 9000) for _ in range(20)))
        await store.client.add([pet("x" * 200)] * 1000)
        for _ in range(2):
            assert len(await store.pets()) == 1000
        given_up = []
        for _ in range(Limits().calls_of_one):
            held = faults.hold("AddPets")
            given_up.append(asyncio.ensure_future(store.stub.AddPets(pb.AddPetsReq())))
            await held.reached.wait()
        for call in given_up:
            call.cancel()
        await asyncio.gather(*given_up, return_exceptions=True)
    assert caplog.messages == []


async def test_the_address_with_most_connections_makes_room_for_others():
    async with standing(Limits(connections=4)) as scene, AsyncExitStack() as stack:
        many = []
        for _ in range(4):
            many.append(await stack.enter_async_context(connected(scene.port, "127.0.0.2")))
            await many[-1].send(HELLO)
        await scene.beyond.until(4 * len(HELLO))
        another = await stack.enter_async_context(connected(scene.port, "127.0.0.2"))
        assert await another.is_cut_off()
        honest = await stack.enter_async_context(connected(scene.port))
        await honest.send(HELLO)
        await scene.beyond.until(5 * len(HELLO))
        assert await many[0].is_cut_off()
        await many[1].send(frame(SETTINGS, ACK))
        await scene.beyond.until(5 * len(HELLO) + 9)


async def test_who_takes_nothing_holds_up_its_own_answers_alone():
    much = frame(DATA, stream=1, payload=b"x" * 16_384) * 800
    async with standing() as scene, connected(scene.port) as slow:
        await slow.send(HELLO)
        await scene.beyond.until(len(HELLO))
        (server,) = scene.beyond.writers
        server.write(much)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await server.drain()
        await slow.reader.readexactly(len(much))
        await server.drain()


async def test_who_takes_nothing_does_not_keep_it_from_stopping():
    async with AsyncExitStack() as stack:  # noqa: SIM117 -- the client goes last
        async with standing() as scene:
            slow = await stack.enter_async_context(connected(scene.port))
            await slow.send(HELLO)
            await scene.beyond.until(len(HELLO))
            scene.beyond.writers[0].write(bytes(20_000_000))
            await asyncio.sleep(0.1)


# Over TLS.


@pytest.fixture
def authority() -> Authority:
    return Authority("a")


@pytest.fixture
def tls(tmp_path: Path, authority: Authority) -> ServerTls:
    for name, content in zip(("cert", "key"), authority.server(DNSName("petstore")), strict=True):
        (tmp_path / name).write_bytes(content)
    tls = ServerTls.of_server(TlsFiles(cert_file=tmp_path / "cert", key_file=tmp_path / "key"))
    assert tls is not None
    return tls


@pytest.fixture
def trusting(authority: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem.decode())
    context.check_hostname = False
    return context


async def test_records_of_a_byte_each_have_to_wait(
    tls: ServerTls, trusting: ssl.SSLContext, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG, "petstore.front")
    now = asyncio.get_running_loop().time
    async with standing(tls=tls) as scene, connected(scene.port, tls=trusting) as client:
        begun = now()
        data = HELLO + frame(DATA, END_STREAM, 1, bytes(16_384))
        for at in range(len(data)):
            await client.send(data[at : at + 1])  # asyncio makes a record of each
        await until_it_waits(caplog)
        assert len(scene.beyond.data) <= 500 + 100 * (now() - begun) + 16_384 / 22


async def test_a_handshake_that_does_not_go_on_is_cut_off(tls: ServerTls):
    async with standing(Limits(silent_seconds=0.1), tls) as scene:
        for data in (b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"):
            async with connected(scene.port) as client:
                await client.send(data)
                assert await client.is_cut_off()


async def test_an_honest_client_over_tls_gets_all_of_a_long_answer(tls: ServerTls, trusting: ssl.SSLContext):
    much = frame(DATA, stream=1, payload=b"x" * 16_384) * 200
    async with standing(tls=tls) as scene, connected(scene.port, tls=trusting) as client:
        await client.send(HELLO)
        await scene.beyond.until(len(HELLO))
        scene.beyond.writers[0].write(much)
        assert await client.reader.readexactly(len(much)) == much


@pytest.mark.each_loop
async def test_an_answer_to_who_has_broken_its_tls_meanwhile_ends_the_connection_and_is_no_error(
    tls: ServerTls, trusting: ssl.SSLContext, caplog: pytest.LogCaptureFixture
):
    async with standing(tls=tls) as scene, connected(scene.port, tls=trusting) as client:
        await client.send(HELLO)
        await scene.beyond.until(len(HELLO))
        (inside,) = scene.front._tasks.values()
        assert inside._secured is not None
        with pytest.raises(ssl.SSLError):
            inside._secured.received(b"\x17\x03\x03\x00\x20" + bytes(32))
        scene.beyond.writers[0].write(frame(SETTINGS))
        assert await client.is_cut_off()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
