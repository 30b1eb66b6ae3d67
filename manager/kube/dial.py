"""How a connection to the API server comes up: TCP, perhaps a proxy, TLS."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar, cast

import httptools
from aiohappyeyeballs import AddrInfoType, start_connection
from yarl import URL

from manager.kube import socks5
from manager.kube.config import ClusterConfig
from manager.kube.connection import Connection
from manager.kube.errors import Unreachable
from manager.kube.names import Names
from manager.kube.tls import TlsFiles, in_thread

CONNECT_TIMEOUT = 10.0
"""Seconds for a connection to come up, name resolution and TLS included."""

_NEXT_ADDRESS_AFTER = 0.25
"""Seconds before the next of a host's addresses is tried beside the first (RFC 8305)."""

P = TypeVar("P", bound="Connection | _Tunnel")


async def dial(
    config: ClusterConfig,
    context: ssl.SSLContext | None,
    names: Names,
    open_socket: Callable[[AddrInfoType], socket.socket],
) -> Connection:
    """Open a new connection to the configured server.

    Args:
        config: where the server is.
        context: the TLS context to connect with, None for plain HTTP.
        names: looks up the host.
        open_socket: makes the socket, not yet connected.

    Raises:
        Unreachable: no connection came up; where TLS failed, its cause is that `ssl.SSLError`.
    """
    server = f"{config.server.host_subcomponent}:{config.server.port}"
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            if config.proxy is None:
                return await _direct(config, context, names, open_socket)
            return await _through(config.proxy, config, context, names, open_socket)
    except TimeoutError as error:
        reason = f"no answer within {CONNECT_TIMEOUT:g} s"
        raise Unreachable(f"cannot connect to {server}: {reason}") from error
    except OSError as error:
        raise Unreachable(f"cannot connect to {server}: {_reason(error)}") from error
    except ValueError as error:  # UnicodeError, or one of the ssl module
        raise Unreachable(f"cannot connect to {server}: the host name is invalid") from error


def proxy_authorization(proxy: URL) -> str | None:
    """Return the Proxy-Authorization header for the user in a proxy's URL; None without a user."""
    if proxy.user is None:
        return None
    named = f"{proxy.user}:{proxy.password or ''}"
    return f"Basic {base64.b64encode(named.encode()).decode()}"


async def _direct(
    config: ClusterConfig,
    context: ssl.SSLContext | None,
    names: Names,
    open_socket: Callable[[AddrInfoType], socket.socket],
) -> Connection:
    connected = await _connect(config.server, names, open_socket)
    return await _use(connected, lambda: Connection(context), context, _name(config))


async def _through(
    proxy: URL,
    config: ClusterConfig,
    context: ssl.SSLContext | None,
    names: Names,
    open_socket: Callable[[AddrInfoType], socket.socket],
) -> Connection:
    proxy_context = None
    if proxy.scheme == "https":
        proxy_context = context or await in_thread(TlsFiles().build)
    try:
        connected = await _connect(proxy, names, open_socket)
    except OSError as error:
        place = f"{proxy.host_subcomponent}:{proxy.port}"
        raise Unreachable(f"cannot connect to the proxy {place}: {_reason(error)}") from error
    if proxy.scheme == "socks5":
        try:
            await socks5.connect(connected, proxy, config.server.raw_host or "", config.server.port or 0)
        except BaseException:
            connected.close()
            raise
        return await _use(connected, lambda: Connection(context), context, _name(config))
    if context is None:  # the proxy takes requests for plain HTTP as they are
        return await _use(connected, lambda: Connection(context), proxy_context, proxy.raw_host)
    tunnel = await _use(connected, _Tunnel, proxy_context, proxy.raw_host)
    server = f"{config.server.host_subcomponent}:{config.server.port}"
    try:
        transport = await tunnel.open(server, proxy_authorization(proxy))
        connection = Connection(context)
        secured = await asyncio.get_running_loop().start_tls(
            transport, connection, context, server_hostname=_name(config)
        )
    except BaseException:
        tunnel.abort()
        raise
    if secured is None:  # it was closed in that very moment
        raise Unreachable(f"cannot connect to {server}: the proxy closed the connection")
    connection.connection_made(secured)
    return connection


async def _connect(
    to: URL, names: Names, open_socket: Callable[[AddrInfoType], socket.socket]
) -> socket.socket:
    """Return a connected TCP socket, by whichever of the host's addresses answers first."""
    return await start_connection(
        await names.addresses(to.raw_host or "", to.port or 0),
        happy_eyeballs_delay=_NEXT_ADDRESS_AFTER,
        socket_factory=open_socket,
    )


async def _use(
    connected: socket.socket, protocol: Callable[[], P], context: ssl.SSLContext | None, name: str | None
) -> P:
    """Speak a protocol over a connected socket, which is the event loop's from now on."""
    speaking = protocol()
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: speaking,
            sock=connected,
            ssl=context,
            server_hostname=name if context is not None else None,
        )
    except BaseException:
        # A transport cancelled at the moment of connecting would still close gracefully, on a closed socket
        # whose number another socket may have by then.
        speaking.abort()
        connected.close()
        raise
    return speaking


def _name(config: ClusterConfig) -> str:
    """Return the name that the server's certificate must have."""
    # One that ends in a dot is the same name, and no certificate spells it so.
    return config.tls_server_name or (config.server.raw_host or "").rstrip(".")


class _Tunnel(asyncio.Protocol):
    """Client of an HTTP proxy that requests a tunnel to the server (CONNECT)."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answered: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def open(self, target: str, authorization: str | None) -> asyncio.Transport:
        """Return the transport once it leads to `target` (host and port); raise `Unreachable` on refusal."""
        assert self._transport is not None
        head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"
        if authorization is not None:
            head += f"Proxy-Authorization: {authorization}\r\n"
        self._transport.write(f"{head}\r\n".encode())
        status = await self._answered
        if not 200 <= status < 300:  # noqa: PLR2004 - any success
            raise Unreachable(f"the proxy answered {status}")
        return self._transport

    def abort(self) -> None:
        """Give it up."""
        self._answered.cancel()  # no task waits for it, so its error would be lost
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit from it

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._settle(OSError(f"the proxy does not speak HTTP ({error})"))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._settle(error or OSError("the proxy closed the connection"))

    def on_headers_complete(self) -> None:
        if (status := self._parser.get_status_code()) >= 200:  # noqa: PLR2004 - not one in between
            self._settle(status)

    def _settle(self, answer: int | Exception) -> None:
        if self._answered.done():
            return
        if isinstance(answer, int):
            self._answered.set_result(answer)
        else:
            self._answered.set_exception(answer)


def _reason(error: OSError) -> str:
    """Why no connection came up, in as few words as say it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not to be trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    # The errno of a name that was not found is the resolver's own.
    if error.errno and error.errno > 0 and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    if isinstance(error, ConnectionError) and not str(error):
        # What asyncio makes of a connection that ends in the middle of the handshake.
        return "it hung up in the TLS handshake"
    return error.strerror or str(error) or type(error).__name__
