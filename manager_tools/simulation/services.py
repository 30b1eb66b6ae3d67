"""HTTP services by name for a loop in virtual time: aiohttp handlers respond within the process.

    async def registry(request: web.BaseRequest) -> web.Response:
        return web.json_response({"tag": "1.2"})

    assert_holds(ImageOperator, services={"http://registry.default.svc:5000": registry})

The loop resolves names and makes connections for any asyncio client and in any task. Requests by `https` are
not encrypted.
"""

from __future__ import annotations

import asyncio
import contextvars
import ipaddress
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from manager_tools.simulation.guards import NotRepeatable, operators_line

if TYPE_CHECKING:
    from aiohttp import web

Handler = Callable[["web.BaseRequest"], Awaitable["web.StreamResponse"]]

_PORTS = {"http": 80, "https": 443}
_FIRST_ADDRESS = ipaddress.IPv4Address("198.18.0.1")
"""The first service's address, from a range that is reserved for tests (RFC 2544)."""
_ENDS_WITHIN = 1.0

_Protocol = Any
"""An asyncio protocol that receives data in parts."""


class Services:
    """A network with known services; it refuses other connections, and records them in `refused`."""

    def __init__(
        self, handlers: Mapping[str, Handler] | None = None, refused: list[str] | None = None
    ) -> None:
        """Set up the services by URL: scheme, host and optional port.

        Raises ValueError for another URL, and for two URLs of the same host and port.
        """
        self.refused: list[str] = [] if refused is None else refused
        self._handlers: dict[tuple[str, int], Handler] = {}
        for url, handler in (handlers or {}).items():
            if (place := _place(url)) in self._handlers:
                raise ValueError(f"services: {url!r} is a second URL of {place[0]}:{place[1]}")
            self._handlers[place] = handler
        hosts = dict.fromkeys(host for host, _ in self._handlers)
        self._addresses = {host: str(_FIRST_ADDRESS + index) for index, host in enumerate(hosts)}
        self._servers: dict[tuple[str, int], web.Server] = {}
        self._connected: WeakKeyDictionary[socket.socket, tuple[str, int]] = WeakKeyDictionary()
        self._context = contextvars.copy_context()

    def refuse(self, what: str, place: str = "") -> NoReturn:
        """Raise NotRepeatable for a network access `what`, with the operator's source line that caused it."""
        line = operators_line()
        advice = f": give services={{'http://{place}': handler}} to fake it" if place else ""
        text = f"{f'{line}: ' if line else ''}{what}, and virtual time has no network{advice}"
        self.refused.append(text)
        raise NotRepeatable(text)

    def look_up(self, host: str, port: int) -> str:
        """Return the simulated address of a host name; an IP address is returned unchanged."""
        if _is_address(host):
            return host
        if (found := self._addresses.get(host.lower().rstrip("."))) is None:
            self.refuse(f"{host} is looked up", f"{host}:{port}")
        return found

    def place_at(self, address: str, port: int) -> tuple[str, int]:
        """Return host and port of the service at an address; refuse an unknown one."""
        host = next((host for host, known in self._addresses.items() if known == address), address)
        if (host, port) not in self._handlers:
            self.refuse(f"{host}:{port} is connected to", f"{host}:{port}")
        return host, port

    def take(self, sock: socket.socket, address: str, port: int) -> None:
        """Connect a socket to the service at the address; the socket itself transfers no data."""
        self._connected[sock] = self.place_at(address, port)

    def connect(
        self, factory: Callable[[], _Protocol], where: tuple[str, int] | socket.socket, ssl: Any
    ) -> tuple[asyncio.Transport, _Protocol]:
        """Connect a client to the service at the address, or at the address of the client's socket."""
        if isinstance(where, socket.socket):
            if (place := self._connected.pop(where, None)) is None:
                self.refuse("a socket is used")
            where.close()
        else:
            place = self.place_at(self.look_up(*where), where[1])
        loop = asyncio.get_running_loop()
        server = self._context.run(self._server, place)
        names = {
            "peername": (self.look_up(*place), place[1]),
            "sockname": ("127.0.0.1", 0),
            "sslcontext": ssl,
        }
        ends = _End(loop, contextvars.copy_context(), names), _End(loop, self._context, names)
        ends[0].peer, ends[1].peer = ends[1], ends[0]
        protocol = factory()
        ends[0].set_protocol(protocol)
        ends[1].set_protocol(server)
        self._context.run(server.connection_made, ends[1])
        protocol.connection_made(ends[0])
        return ends[0], protocol

    def _server(self, place: tuple[str, int]) -> _Protocol:
        from aiohttp import web  # noqa: PLC0415 - 75 ms, 9 MB, and most runs have no services

        if place not in self._servers:
            self._servers[place] = web.Server(self._handlers[place], access_log=None)
        return self._servers[place]()

    async def aclose(self) -> None:
        """Close all connections to the services."""
        for server in self._servers.values():
            await server.shutdown(_ENDS_WITHIN)


class _End(asyncio.Transport):
    peer: _End

    def __init__(
        self, loop: asyncio.AbstractEventLoop, context: contextvars.Context, extra: dict[str, Any]
    ) -> None:
        super().__init__(extra)
        self._loop = loop
        self._context = context
        self._protocol: _Protocol = None
        self._arrived: deque[bytes | None] = deque()
        self._closing = self._lost = self._paused = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol  # type: ignore[no-any-return]

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing and data:
            self.peer._arrives(bytes(data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.peer._arrives(None)

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: no data waits to be written."""

    def is_reading(self) -> bool:
        return not self._paused and not self._closing

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._loop.call_soon(self._deliver, context=self._context)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._end, context=self._context)
            self.peer._arrives(None)

    def abort(self) -> None:
        self.close()

    def _arrives(self, data: bytes | None) -> None:
        self._arrived.append(data)
        self._loop.call_soon(self._deliver, context=self._context)

    def _deliver(self) -> None:
        while self._arrived and not self._paused and not self._closing:
            data = self._arrived.popleft()
            if data is not None:
                self._protocol.data_received(data)
            elif not self._protocol.eof_received():
                self.close()

    def _end(self) -> None:
        if not self._lost:
            self._lost = True
            self._protocol.connection_lost(None)


def _place(url: str) -> tuple[str, int]:
    refusal = ValueError(f"services: {url!r} is no http(s)://HOST[:PORT]")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        raise refusal from None
    further = (parts.username, parts.path.strip("/"), parts.query, parts.fragment)
    if parts.scheme not in _PORTS or not host or any(further):
        raise refusal
    return host.rstrip("."), port


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
