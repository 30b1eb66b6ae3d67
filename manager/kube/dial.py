"""Opening of connections to the API server: name look-up, TCP, an optional proxy, TLS."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import TypeAlias

from aiohappyeyeballs import AddrInfoType, start_connection
from yarl import URL

from manager.kube.config import ClusterConfig
from manager.kube.connection import Connection
from manager.kube.errors import ConnectionLost, Unreachable
from manager.kube.tls import TlsFiles
from manager.util.loop import in_thread

CONNECT_TIMEOUT = 10.0
"""Seconds for opening a connection, including name resolution and TLS."""

PATIENCE = 1.0
"""Seconds for a name look-up; then the addresses of the previous look-up are used."""

_NEXT_ADDRESS_AFTER = 0.25
"""Seconds until the next address of a host is tried while the first attempt continues (RFC 8305)."""

OpenSocket: TypeAlias = Callable[[AddrInfoType], socket.socket]
"""Creates a socket for an address, without connecting it."""

_Addresses: TypeAlias = Sequence[AddrInfoType]


class Dialer:
    """An opener of connections to the configured server."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._names = _Names()
        self._server = f"{config.server.host_subcomponent}:{config.server.port}"
        # A trailing dot does not change the name, and no certificate contains it.
        self._certificate_name = config.tls_server_name or (config.server.raw_host or "").rstrip(".")

    async def connect(self, context: ssl.SSLContext | None, open_socket: OpenSocket) -> Connection:
        """Open a new connection with a TLS context, None for plain HTTP.

        Raises Unreachable, whose cause is the `ssl.SSLError` if TLS failed, and ConfigError if the CA
        certificates for an HTTPS proxy are unusable.
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
        except (OSError, ValueError) as error:
            raise Unreachable(f"cannot connect to {self._server}: {_reason(error)}") from error

    async def _through(
        self, proxy: URL, context: ssl.SSLContext | None, open_socket: OpenSocket
    ) -> Connection:
        proxy_context = None
        if proxy.scheme == "https":
            proxy_context = context or await in_thread(TlsFiles().build)
        # A proxy accepts requests for plain HTTP without a tunnel.
        tunnel = Connection() if context is None else _Tunnel()
        try:
            connected = await self._reach(proxy, open_socket)
            if proxy.scheme != "socks5":
                await _use(connected, tunnel, proxy_context, proxy.raw_host)
        except (OSError, ValueError) as error:
            place = f"{proxy.host_subcomponent}:{proxy.port}"
            raise Unreachable(f"cannot connect to the proxy {place}: {_reason(error)}") from error
        if proxy.scheme == "socks5":
            try:
                await _ask_socks_proxy(connected, proxy, self._config.server)
            except BaseException:
                connected.close()
                raise
            return await _use(connected, Connection(context), context, self._certificate_name)
        return tunnel if context is None else await self._tunnelled(tunnel, proxy, context)

    async def _tunnelled(self, tunnel: Connection, proxy: URL, context: ssl.SSLContext) -> Connection:
        """Make the proxy connect to the server, and start TLS with the server."""
        head = f"CONNECT {self._server} HTTP/1.1\r\nHost: {self._server}\r\n"
        if (authorization := proxy_authorization(proxy)) is not None:
            head += f"Proxy-Authorization: {authorization}\r\n"
        try:
            answer = await tunnel.ask(f"{head}\r\n".encode(), b"", None)
            if not 200 <= answer.status < 300:  # noqa: PLR2004 - any success
                raise Unreachable(f"the proxy answered {answer.status}")  # noqa: TRY301
            connection = Connection(context)
            secured = await asyncio.get_running_loop().start_tls(
                answer.transport, connection, context, server_hostname=self._certificate_name
            )
        except ConnectionLost as error:
            raise Unreachable(f"cannot connect to {self._server} through the proxy: {error}") from error
        except BaseException:
            tunnel.abort()
            raise
        if secured is None:  # the connection was closed in that very moment
            raise Unreachable(f"cannot connect to {self._server}: the proxy closed the connection")
        connection.connection_made(secured)
        return connection

    async def _reach(self, to: URL, open_socket: OpenSocket) -> socket.socket:
        """Return a TCP socket that is connected to the fastest of the host's addresses."""
        return await start_connection(
            await self._names.find(to.raw_host or "", to.port or 0),
            happy_eyeballs_delay=_NEXT_ADDRESS_AFTER,
            socket_factory=open_socket,
        )


class _Tunnel(Connection):
    """A connection to a proxy; the proxy's successful answer has no body, even with a Content-Length."""

    def on_message_complete(self) -> None:
        """Keep the connection open."""


def proxy_authorization(proxy: URL | None) -> str | None:
    """Return the Proxy-Authorization header for the user in a proxy's URL; None without a user."""
    if proxy is None or proxy.user is None:
        return None
    named = f"{proxy.user}:{proxy.password or ''}"
    return f"Basic {base64.b64encode(named.encode()).decode()}"


async def _use(
    connected: socket.socket, protocol: Connection, context: ssl.SSLContext | None, name: str | None
) -> Connection:
    """Start HTTP on a connected socket, which then belongs to the event loop."""
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: protocol,
            sock=connected,
            ssl=context,
            server_hostname=name if context is not None else None,
        )
    except BaseException:
        # A transport that is cancelled while connecting would still close gracefully, on a closed socket
        # whose number another socket may already have.
        protocol.abort()
        connected.close()
        raise
    return protocol


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if not isinstance(error, OSError):  # UnicodeError, or an error of the ssl module
        return "the host name is invalid"
    # The errno for an unknown name has its own numbering.
    if error.errno and error.errno > 0 and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    if isinstance(error, ConnectionError) and not str(error):
        # asyncio raises this if a connection ends during the handshake.
        return "it closed the connection in the TLS handshake"
    return error.strerror or str(error) or type(error).__name__


class _Names:
    """A DNS resolver for the connections of one wire.

    A look-up cannot be cancelled, and takes five seconds or more if a packet is lost. So concurrent callers
    share one look-up per name, in its own thread. The event loop has few threads, and abandoned look-ups in
    them would delay other wires, such as the lease's.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], _Addresses] = {}
        self._under_way: dict[tuple[str, int], asyncio.Task[_Addresses | Exception]] = {}

    async def find(self, host: str, port: int) -> _Addresses:
        """Return the host's addresses; the previous look-up's addresses if a new look-up fails or is slow.

        Raises:
            OSError: the host has no addresses.
            UnicodeError: the host is not a valid name.
        """
        numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        with suppress(OSError, UnicodeError):  # for a name
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=numeric)
        place = host, port
        known = self._known.get(place)
        search = self._under_way.get(place)
        if search is None:
            search = self._under_way[place] = asyncio.create_task(self._look_up(place), name="name-lookup")
        await asyncio.wait([search], timeout=PATIENCE if known else None)
        if search.done() and not isinstance(found := search.result(), Exception):
            return found
        if known:
            return known
        # Raise a new exception for each caller: callers share the look-up, not the traceback.
        error = search.result()
        assert isinstance(error, Exception)
        raise type(error)(*error.args)

    async def _look_up(self, place: tuple[str, int]) -> _Addresses | Exception:
        try:
            found = await in_thread(partial(socket.getaddrinfo, *place, type=socket.SOCK_STREAM))
        except Exception as error:  # noqa: BLE001 - every waiting caller gets it
            return error
        finally:
            del self._under_way[place]
        self._known[place] = found
        return found


# SOCKS5 (RFC 1928): one request to the proxy precedes everything else on a connection.

_VERSION = 5
_NO_USER, _USER = 0, 2
_LONGEST = 255
_REFUSALS = (
    *("general failure", "not allowed by its rules", "network unreachable", "host unreachable"),
    *("connection refused", "TTL expired", "command not supported"),
    "address type not supported",
)


async def _ask_socks_proxy(connected: socket.socket, proxy: URL, server: URL) -> None:
    """Ask the proxy at the socket's other end to connect to the server, whose name the proxy looks up.

    Raises Unreachable if the proxy refuses, and OSError if the connection breaks or is not SOCKS5.
    """
    user, password, name = (
        part.encode() for part in (proxy.user or "", proxy.password or "", server.raw_host or "")
    )
    if max(map(len, (user, password, name))) > _LONGEST:
        raise Unreachable("user, password or host are longer than SOCKS5 allows")
    send = partial(asyncio.get_running_loop().sock_sendall, connected)
    await send(bytes((_VERSION, 2, _NO_USER, _USER) if user else (_VERSION, 1, _NO_USER)))
    version, method = await _read(connected, 2)
    if version != _VERSION:
        raise OSError("the proxy does not speak SOCKS5")
    if method == _USER and user:
        await send(bytes((1, len(user))) + user + bytes((len(password),)) + password)
        _, refused = await _read(connected, 2)
        if refused:
            raise Unreachable("the proxy refuses user and password")
    elif method != _NO_USER:
        raise Unreachable("the proxy requires a user" if not user else "the proxy takes no user and password")
    try:
        packed = ip_address(server.raw_host or "").packed
        address = bytes((1 if len(packed) == 4 else 4,)) + packed  # noqa: PLR2004 - the bytes of IPv4
    except ValueError:
        address = bytes((3, len(name))) + name
    await send(bytes((_VERSION, 1, 0)) + address + (server.port or 0).to_bytes(2, "big"))
    _, answer, _, kind = await _read(connected, 4)
    if answer:
        why = _REFUSALS[answer - 1] if answer <= len(_REFUSALS) else f"code {answer}"
        raise Unreachable(f"the proxy cannot connect to the server: {why}")
    length = {1: 4, 4: 16}.get(kind) or (await _read(connected, 1))[0]
    await _read(connected, length + 2)  # the proxy's own address and port


async def _read(connected: socket.socket, length: int) -> bytes:
    loop, read = asyncio.get_running_loop(), b""
    while len(read) < length:
        more = await loop.sock_recv(connected, length - len(read))
        if not more:
            raise OSError("the proxy closed the connection")
        read += more
    return read
