"""WebSockets to the API server, by aiohttp over the manager's own connections.

Imported for the first WebSocket: loading aiohttp's client takes 0.2 s.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Self

import aiohttp
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from manager.kube.config import ClusterConfig
from manager.kube.connection import Connection
from manager.kube.credentials import Obtained
from manager.kube.errors import ConnectionLost, ProtocolError, Unauthorized, error_from
from manager.kube.wire import WireRequest

CLOSED_WITHIN = 2.0
"""Seconds in which the server has to confirm the end of a WebSocket."""

_LONGEST_REFUSAL = 1024 * 1024
"""The maximum size in bytes of an answer that refuses a WebSocket."""


class WebSocket(aiohttp.ClientWebSocketResponse):
    """An aiohttp WebSocket that implements `manager.kube.wire.WebSocket`; each write calls `permit` first."""

    permit: Callable[[], None]
    _has_ended = False

    async def receive_message(self) -> bytes | None:
        """Return the next message; None at the regular end. Raises ConnectionLost and ProtocolError."""
        if self._has_ended:
            return None
        message = await self.receive()
        match message.type:
            case aiohttp.WSMsgType.CLOSE:
                self._has_ended = True
                return None
            case aiohttp.WSMsgType.BINARY:
                return bytes(message.data)
            case aiohttp.WSMsgType.TEXT:
                return str(message.data).encode()
            case aiohttp.WSMsgType.ERROR:
                raise ProtocolError(f"the WebSocket received invalid data: {message.data}")
            case _:
                raise ConnectionLost("the WebSocket broke")

    async def send_bytes(self, data: bytes, compress: int | None = None) -> None:
        """Send a binary message; raises Fenced."""
        self.permit()
        await super().send_bytes(data, compress)

    async def send_str(self, data: str, compress: int | None = None) -> None:
        """Send a text message; raises Fenced."""
        self.permit()
        await super().send_str(data, compress)


@asynccontextmanager
async def connect(
    config: ClusterConfig,
    open_connection: Callable[[], Awaitable[Connection]],
    request: WireRequest,
    protocols: Sequence[str],
    longest: int,
) -> AsyncIterator[WebSocket]:
    """Open a WebSocket on a separate connection, as `Wire.websocket` does."""
    permit = request.permit or (lambda: None)
    async with aiohttp.ClientSession(
        connector=_Connector(open_connection, permit),
        cookie_jar=aiohttp.DummyCookieJar(),
        response_class=_Handshake,
        ws_response_class=WebSocket,
        skip_auto_headers=("Accept-Encoding",),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:

        async def open_with(obtained: Obtained) -> WebSocket:
            headers = [*request.headers.items(), *config.headers]
            if obtained.header is not None:
                headers.append(("Authorization", obtained.header))
            try:
                opened = await session.ws_connect(
                    URL(f"{str(config.server).rstrip('/')}{request.path}", encoded=True),
                    headers=headers,
                    protocols=protocols,
                    max_msg_size=longest,
                    timeout=aiohttp.ClientWSTimeout(ws_close=CLOSED_WITHIN),
                )
            except aiohttp.WSServerHandshakeError as error:
                raise ProtocolError(f"the API server does not speak WebSocket: {error.message}") from error
            except (aiohttp.ClientError, OSError) as error:
                raise ConnectionLost(f"the connection broke in the WebSocket handshake: {error}") from error
            assert isinstance(opened, WebSocket)
            opened.permit = permit
            return opened

        obtained = await config.current_credentials()
        try:
            socket = await open_with(obtained)
        except Unauthorized:
            config.tls_failed()
            renewed = await config.current_credentials(rejected=obtained)
            if renewed == obtained:
                raise
            socket = await open_with(renewed)
        async with socket:
            if socket.protocol is None:
                raise ProtocolError(f"the API server chose none of the protocols {', '.join(protocols)}")
            yield socket


class _Connector(aiohttp.BaseConnector):
    def __init__(
        self, open_connection: Callable[[], Awaitable[Connection]], permit: Callable[[], None]
    ) -> None:
        super().__init__(force_close=True)
        self._open, self._permit = open_connection, permit
        self._transports: list[asyncio.Transport] = []

    async def _create_connection(self, *_: Any, **__: Any) -> ResponseHandler:
        connection = await self._open()
        try:
            self._permit()
            transport = connection.hand_over()
        except BaseException:
            connection.abort()
            raise
        self._transports.append(transport)
        handler = self._factory()
        transport.set_protocol(handler)
        handler.connection_made(transport)
        return handler

    def close(self, **options: Any) -> Any:
        """Abort the connections, because a regular end of TLS would wait for the server's reply."""
        for transport in self._transports:
            transport.abort()
        return super().close(**options)


class _Handshake(aiohttp.ClientResponse):
    """The response to a WebSocket's handshake; a refusal raises the error of the server's Status."""

    async def start(self, connection: Any) -> Self:
        await super().start(connection)
        if self.status == HTTPStatus.SWITCHING_PROTOCOLS:
            return self
        body = bytearray()
        async for part in self.content.iter_any():
            body += part
            if len(body) > _LONGEST_REFUSAL:
                raise ProtocolError(f"the answer is longer than {_LONGEST_REFUSAL} bytes")
        if self.status < HTTPStatus.MULTIPLE_CHOICES:
            raise ProtocolError(f"the API server answered {self.status} where a WebSocket was asked for")
        raise error_from(self.status, self.headers, bytes(body))
