"""WebSockets on the server's side, with aiohttp as the client, or byte by byte."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest

from devcluster.exchange import ApiRequest, ApiResponse, WebSocket
from devcluster.http.front import HttpFront
from devcluster.http.websocket import LONGEST_MESSAGE

Serve = Callable[[WebSocket], Awaitable[None]]

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


async def echo(opened: WebSocket) -> None:
    while (message := await opened.receive()) is not None:
        await opened.send(message)


class Served:
    """A front that answers each request with a WebSocket."""

    def __init__(self) -> None:
        self.serve: Serve = echo
        self.ended = asyncio.Event()
        self.front = HttpFront(self.handle)
        self.port = 0

    async def handle(self, _: ApiRequest) -> ApiResponse:
        async def serve(opened: WebSocket) -> None:
            try:
                await self.serve(opened)
            finally:
                self.ended.set()

        return ApiResponse(status=101, headers={"Sec-WebSocket-Protocol": "p"}, websocket=serve)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    listener = socket.create_server(("127.0.0.1", 0))
    served = Served()
    served.port = listener.getsockname()[1]
    await served.front.start(listener)
    yield served
    await served.front.stop()


@pytest.fixture
async def client(served: Served) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{served.port}/", protocols=("p",), max_msg_size=0) as opened,
    ):
        yield opened


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 1_000_000])
async def test_server_socket_echoes_messages_of_any_size(client: aiohttp.ClientWebSocketResponse, size: int):
    message = bytes(range(256)) * (size // 256 + 1)
    await client.send_bytes(message[:size])
    assert await client.receive_bytes(timeout=10) == message[:size]


async def test_server_socket_answers_a_ping(client: aiohttp.ClientWebSocketResponse):
    await client.ping(b"there?")
    await client.send_bytes(b"after")
    # aiohttp takes the pong for itself; the echo comes after it.
    assert await client.receive_bytes(timeout=10) == b"after"


async def test_handler_gets_the_end_when_the_client_closes(
    served: Served, client: aiohttp.ClientWebSocketResponse
):
    await client.close()
    await asyncio.wait_for(served.ended.wait(), 10)
    assert client.close_code == 1000


async def test_client_gets_a_close_frame_when_the_handler_returns(
    served: Served, client: aiohttp.ClientWebSocketResponse
):
    async def once(opened: WebSocket) -> None:
        message = await opened.receive()
        assert message is not None
        await opened.send(message)

    await client.close()
    served.serve = once
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{served.port}/", protocols=("p",)) as opened,
    ):
        await opened.send_bytes(b"x")
        assert await opened.receive_bytes(timeout=10) == b"x"
        assert (await opened.receive(timeout=10)).type is aiohttp.WSMsgType.CLOSE


async def test_handler_is_cancelled_when_the_connection_breaks(served: Served):
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(HANDSHAKE)
    head = await reader.readuntil(b"\r\n\r\n")
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head  # the example of the RFC
    writer.transport.abort()
    await asyncio.wait_for(served.ended.wait(), 10)


async def test_message_that_came_with_the_handshake_in_two_frames_is_echoed_as_one(served: Served):
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    mask = b"\0\0\0\0"
    writer.write(HANDSHAKE + b"\x02\x82" + mask + b"ab" + b"\x80\x81" + mask + b"c")
    await reader.readuntil(b"\r\n\r\n")
    assert await reader.readexactly(5) == b"\x82\x03abc"
    writer.close()


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x82\x01a", 1002),  # a client has to mask
        (b"\x82\xff" + (LONGEST_MESSAGE + 1).to_bytes(8), 1009),
    ],
)
async def test_server_socket_closes_at_a_wrong_frame(served: Served, frame: bytes, code: int):
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(HANDSHAKE + frame)
    await reader.readuntil(b"\r\n\r\n")
    assert await reader.read() == b"\x88\x02" + code.to_bytes(2)
    writer.close()


async def test_server_socket_stops_reading_while_the_handler_is_busy(served: Served):
    go_on, taken = asyncio.Event(), list[bytes]()

    async def late(opened: WebSocket) -> None:
        await go_on.wait()
        while (message := await opened.receive()) is not None:
            taken.append(message)

    served.serve = late
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{served.port}/", protocols=("p",)) as opened,
    ):
        piece = bytes(1_000_000)

        async def send() -> None:
            for _ in range(60):
                await opened.send_bytes(piece)

        sending = asyncio.create_task(send())
        await asyncio.wait([sending], timeout=0.5)
        assert not sending.done()
        go_on.set()
        await asyncio.wait_for(sending, 20)
    await asyncio.wait_for(served.ended.wait(), 10)
    assert len(taken) == 60


async def test_front_ends_websockets_when_it_stops(served: Served, client: aiohttp.ClientWebSocketResponse):
    stopping = asyncio.create_task(served.front.stop())
    assert (await client.receive(timeout=10)).type is aiohttp.WSMsgType.CLOSE
    await client.close()
    await stopping
