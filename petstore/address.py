"""The address that a server listens on: `:6742`, `127.0.0.1:6742`, `[::1]:6742`."""

from __future__ import annotations

import ipaddress
import os
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
        """The address for a client on this machine."""
        return str(self) if self.host else f"localhost{self}"

    @property
    def interface(self) -> str:
        """The host, or the address for all interfaces."""
        if self.host:
            return self.host
        return "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 -- the user's choice

    @property
    def target(self) -> str:
        """The address that gRPC listens on."""
        return str(BindAddress(self.interface, self.port))

    def why_not(self) -> str:
        """Return why nothing can listen there, or an empty text; blocks."""
        try:
            for family, *_, where in socket.getaddrinfo(self.interface, self.port, type=socket.SOCK_STREAM):
                # All interfaces include those of IPv4, as for the store itself.
                both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
                socket.create_server(where[:2], family=family, dualstack_ipv6=both).close()
        except OSError as error:
            # `socket.create_server` says more, and the same again.
            return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        return ""


def parse_address(text: str) -> BindAddress:
    """Parse an address.

    Raises:
        ValueError: with a message about the expected form.
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
