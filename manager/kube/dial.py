"""Dialling of the API server: look-up of its name, TCP, perhaps a proxy, TLS."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from ipaddress import ip_address
from typing import TypeAlias, TypeVar, cast

import httptools
from aiohappyeyeballs import AddrInfoType, start_connection
from yarl import URL

from manager.kube.config import ClusterConfig
from manager.kube.connection import Connection
from manager.kube.errors import Unreachable
from manager.kube.tls import TlsFiles, in_thread

CONNECT_TIMEOUT = 10.0
"""Seconds for a connection to come up, name resolution and TLS included."""

PATIENCE = 1.0
"""Seconds for a name look-up before the addresses that the previous one found are used."""

_NEXT_ADDRESS_AFTER = 0.25
"""Seconds before the next of a host's addresses is tried beside the first (RFC 8305)."""

OpenSocket: TypeAlias = Callable[[AddrInfoType], socket.socket]
"""Makes a socket for an address, not yet connected."""

P = TypeVar("P", bound="Connection | _Tunnel")
_Addresses: TypeAlias = Sequence[AddrInfoType]


class Dialer:
    """Opener of connections to the configured server."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._names = _Names()
        self._server = f"{config.server.host_subcomponent}:{config.server.port}"
        # A name that ends in a dot is the same name, and no certificate spells it so.
        self._certificate_name = config.tls_server_name or (config.server.raw_host or "").rstrip(".")

    async def connect(self, context: ssl.SSLContext | None, open_socket: OpenSocket) -> Connection:
        """Open a new connection with a TLS context, None for plain HTTP.

        Raises:
            Unreachable: no connection came up; where TLS failed, its cause is that `ssl.SSLError`.
        """
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                if self._config.proxy is not None:
                    return await self._through(self._config.proxy, context, open_socket)
                connected = await self._reach(self._config.server, open_socket)
                return await _use(connected, Connection(context), context, self._certificate_name)
        except TimeoutError as error:
            reason = f"no answer within {CONNECT_TIMEOUT:g} s"
            raise Unreachable(f"cannot connect to {self._server}: {reason}") from error
        except OSError as error:
            raise Unreachable(f"cannot connect to {self._server}: {_reason(error)}") from error
        except ValueError as error:  # UnicodeError, or one of the ssl module
            raise Unreachable(f"cannot connect to {self._server}: the host name is invalid") from error

    async def _through(
        self, proxy: URL, context: ssl.SSLContext | None, open_socket: OpenSocket
    ) -> Connection:
        proxy_context = None
        if proxy.scheme == "https":
            proxy_context = context or await in_thread(TlsFiles().build)
        try:
            connected = await self._reach(proxy, open_socket)
        except OSError as error:
            place = f"{proxy.host_subcomponent}:{proxy.port}"
            raise Unreachable(f"cannot connect to the proxy {place}: {_reason(error)}") from error
        if proxy.scheme == "socks5":
            try:
                await _ask_socks_proxy(connected, proxy, self._config.server)
            except BaseException:
                connected.close()
                raise
            return await _use(connected, Connection(context), context, self._certificate_name)
        if context is None:  # the proxy takes requests for plain HTTP as they are
            return await _use(connected, Connection(), proxy_context, proxy.raw_host)
        tunnel = await _use(connected, _Tunnel(), proxy_context, proxy.raw_host)
        try:
            transport = await tunnel.open(self._server, proxy_authorization(proxy))
            connection = Connection(context)
            secured = await asyncio.get_running_loop().start_tls(
                transport, connection, context, server_hostname=self._certificate_name
            )
        except BaseException:
            tunnel.abort()
            raise
        if secured is None:  # it was closed in that very moment
            raise Unreachable(f"cannot connect to {self._server}: the proxy closed the connection")
        connection.connection_made(secured)
        return connection

    async def _reach(self, to: URL, open_socket: OpenSocket) -> socket.socket:
        """Return a TCP socket that is connected to the first of the host's addresses to answer."""
        return await start_connection(
            await self._names.find(to.raw_host or "", to.port or 0),
            happy_eyeballs_delay=_NEXT_ADDRESS_AFTER,
            socket_factory=open_socket,
        )


def proxy_authorization(proxy: URL) -> str | None:
    """Return the Proxy-Authorization header for the user in a proxy's URL; None without a user."""
    if proxy.user is None:
        return None
    named = f"{proxy.user}:{proxy.password or ''}"
    return f"Basic {base64.b64encode(named.encode()).decode()}"


async def _use(connected: socket.socket, protocol: P, context: ssl.SSLContext | None, name: str | None) -> P:
    """Speak a protocol over a connected socket, which is the event loop's from now on."""
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: protocol,
            sock=connected,
            ssl=context,
            server_hostname=name if context is not None else None,
        )
    except BaseException:
        # A transport cancelled at the moment of connecting would still close gracefully, on a closed socket
        # whose number another socket may have by then.
        protocol.abort()
        connected.close()
        raise
    return protocol


def _reason(error: OSError) -> str:
    """Say in a few words why no connection came up."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not to be trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    # The errno of a name that was not found is the resolver's own.
    if error.errno and error.errno > 0 and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    if isinstance(error, ConnectionError) and not str(error):
        # asyncio raises this for a connection that ends in the middle of the handshake.
        return "it hung up in the TLS handshake"
    return error.strerror or str(error) or type(error).__name__


class _Names:
    """DNS resolver for the connections of one wire.

    A look-up cannot be cancelled, and takes five seconds or more when a packet is lost. So concurrent callers
    share one look-up per name, in a thread of its own. The event loop has few threads, and abandoned look-ups
    in them would delay other wires, such as the lease's.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], _Addresses] = {}
        self._under_way: dict[tuple[str, int], asyncio.Future[_Addresses | Exception]] = {}

    async def find(self, host: str, port: int) -> _Addresses:
        """Return the host's addresses; those of the last look-up, if the new one fails or is slow.

        Raises:
            OSError: there are none.
            UnicodeError: the host cannot be a name.
        """
        numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        try:
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=numeric)
        except (OSError, UnicodeError):
            pass  # a name
        known = self._known.get((host, port))
        search = self._search(host, port)
        await asyncio.wait([search], timeout=PATIENCE if known else None)
        if search.done() and not isinstance(found := search.result(), Exception):
            return found
        if known:
            return known
        # Give each caller an exception of its own: callers share the look-up, not the traceback.
        error = search.result()
        assert isinstance(error, Exception)
        raise type(error)(*error.args)

    def _search(self, host: str, port: int) -> asyncio.Future[_Addresses | Exception]:
        place = host, port
        if place not in self._under_way:
            answer: Future[_Addresses | Exception] = Future()
            # A daemon: the process ends although a name server has not answered yet.
            threading.Thread(target=_look_up, args=(*place, answer), name="name", daemon=True).start()
            self._under_way[place] = asyncio.wrap_future(answer)
            self._under_way[place].add_done_callback(partial(self._ended, place))
        return self._under_way[place]

    def _ended(self, place: tuple[str, int], search: asyncio.Future[_Addresses | Exception]) -> None:
        del self._under_way[place]
        if not isinstance(found := search.result(), Exception):
            self._known[place] = found


def _look_up(host: str, port: int, answer: Future[_Addresses | Exception]) -> None:
    try:
        answer.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except Exception as error:  # noqa: BLE001 - every waiting caller gets it
        answer.set_result(error)


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
        self._answered.cancel()  # no task waits for it, so its error would be lost
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit from it

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(OSError(f"the proxy does not speak HTTP ({error})"))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._fail(error or OSError("the proxy closed the connection"))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and not self._answered.done():  # noqa: PLR2004 - not one in between
            self._answered.set_result(status)

    def _fail(self, error: Exception) -> None:
        if not self._answered.done():
            self._answered.set_exception(error)


# SOCKS5 (RFC 1928): one request to the proxy precedes everything else on a connection.

_VERSION, _CONNECT = 5, 1
_NO_USER, _USER = 0, 2
_IPV4, _NAME, _IPV6 = 1, 3, 4
_LONGEST = 255
_REFUSALS = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "the way is too long",
    7: "it does not connect to others",
    8: "it does not know such addresses",
}


async def _ask_socks_proxy(connected: socket.socket, proxy: URL, server: URL) -> None:
    """Have the proxy at the other end of the socket connect to a server, whose name it looks up itself.

    Raises Unreachable when it refuses, and OSError when the connection breaks.
    """
    user, password = (part.encode() for part in (proxy.user or "", proxy.password or ""))
    send = partial(asyncio.get_running_loop().sock_sendall, connected)
    await send(bytes((_VERSION, 2, _NO_USER, _USER) if user else (_VERSION, 1, _NO_USER)))
    version, method = await _read(connected, 2)
    if version != _VERSION:
        raise OSError("the proxy does not speak SOCKS5")
    if method == _USER and user:
        if max(len(user), len(password)) > _LONGEST:
            raise Unreachable("user or password of the proxy are longer than SOCKS5 allows")
        await send(bytes((1, len(user))) + user + bytes((len(password),)) + password)
        _, refused = await _read(connected, 2)
        if refused:
            raise Unreachable("the proxy refuses user and password")
    elif method != _NO_USER:
        raise Unreachable("the proxy wants a user" if not user else "the proxy takes no user and password")
    address = _socks_address(server.raw_host or "")
    await send(bytes((_VERSION, _CONNECT, 0)) + address + (server.port or 0).to_bytes(2, "big"))
    _, answer, _, kind = await _read(connected, 4)
    if answer:
        raise Unreachable(f"the proxy cannot connect to it: {_REFUSALS.get(answer, f'code {answer}')}")
    length = {_IPV4: 4, _IPV6: 16}.get(kind)
    if length is None:
        [length] = await _read(connected, 1)
    await _read(connected, length + 2)  # where it has connected from


def _socks_address(host: str) -> bytes:
    try:
        packed = ip_address(host).packed
    except ValueError:
        name = host.encode()
        if len(name) > _LONGEST:
            raise Unreachable(f"the name {host!r} is longer than SOCKS5 allows") from None
        return bytes((_NAME, len(name))) + name
    return bytes((_IPV4 if len(packed) == 4 else _IPV6,)) + packed  # noqa: PLR2004 - the bytes of IPv4


async def _read(connected: socket.socket, length: int) -> bytes:
    loop, read = asyncio.get_running_loop(), b""
    while len(read) < length:
        more = await loop.sock_recv(connected, length - len(read))
        if not more:
            raise OSError("the proxy closed the connection")
        read += more
    return read
