"""Where a server listens: `:6742`, `127.0.0.1:6742`, `[::1]:6742`."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass

__all__ = ["BindAddress", "parse_address"]

_EXPECTED = 'an address such as ":6742", "127.0.0.1:6742" or "[::1]:6742" is expected'
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")
_MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class BindAddress:
    """A host and a port to listen on."""

    host: str
    """An IP address without brackets, a host name, or "" for all interfaces."""

    port: int
    """0 lets the system choose a free port."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def reached(self) -> str:
        """As a client on this machine writes it."""
        return str(self) if self.host else f"localhost{self}"

    @property
    def interface(self) -> str:
        """The host, with an address that stands for all interfaces."""
        if self.host:
            return self.host
        return "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 -- what the user asked for

    def listen(self) -> list[socket.socket]:
        """Listen on each address that the host has, at the same port. Blocks. Raises OSError."""
        sockets: list[socket.socket] = []
        try:
            for family, *_, where in socket.getaddrinfo(self.interface, self.port, type=socket.SOCK_STREAM):
                port = sockets[0].getsockname()[1] if sockets else self.port
                everywhere = not self.host and family == socket.AF_INET6
                sockets.append(
                    socket.create_server((where[0], port), family=family, dualstack_ipv6=everywhere)
                )
        except BaseException:
            for each in sockets:
                each.close()
            raise
        return sockets


def parse_address(text: str) -> BindAddress:
    """The address written in `text`.

    Raises:
        ValueError: with a message that says what is expected.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > _MAX_PORT:
        raise ValueError(_EXPECTED)
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if host and not _is_ip(host, version=6 if bracketed else 4) and (bracketed or not _is_name(host)):
        raise ValueError(_EXPECTED)
    return BindAddress(host=host, port=int(port))


def _is_ip(host: str, *, version: int) -> bool:
    try:
        return ipaddress.ip_address(host).version == version
    except ValueError:
        return False


def _is_name(host: str) -> bool:
    # Digits and dots alone are an IPv4 address written wrongly, not a name.
    return _HOST_NAME.fullmatch(host) is not None and not host.replace(".", "").isdigit()
