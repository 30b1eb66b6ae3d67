"""Addresses of servers: to connect to, and to listen on."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")
_MAX_PORT = 65535
_DIGITS = re.compile(r"[0-9]{1,5}")


def parse_address(text: str) -> str:
    """Return the address of a server to connect to as it was written: `petstore:6742`, `[::1]:6742`.

    Raises `ValueError`, with a message that says what is expected.
    """
    parts = split_address(text)
    if parts is None or not parts[0] or not parts[1]:
        raise ValueError('a host and a port such as "localhost:6742" or "[::1]:6742" are expected')
    return text


def split_address(text: str) -> tuple[str, int] | None:
    """Split an address into the host, unbracketed or "", and the port, which may be 0; None if invalid."""
    host, colon, port = text.rpartition(":")
    if not colon or not _DIGITS.fullmatch(port) or int(port) > _MAX_PORT:
        return None
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        return (host, int(port)) if _is_ip(host, version=6) else None
    # Digits and dots alone are an IPv4 address written wrongly, not a name.
    is_name = _HOST_NAME.fullmatch(host) is not None and not host.replace(".", "").isdigit()
    if host and not is_name and not _is_ip(host, version=4):
        return None
    return host, int(port)


def in_pod(environ: Mapping[str, str]) -> bool:
    """Return whether this process runs in a cluster: every pod is told the address of the API server."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST") and environ.get("KUBERNETES_SERVICE_PORT"))


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches `host`: `localhost`, `127.0.0.1`, `::1`."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # Python before 3.13 does not look into an address of IPv4 that is written as one of IPv6.
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def client_at(host: str | None) -> str:
    """Return the identity of the client at IP address `host`, for limits per client.

    An IPv4 client has one address. An IPv6 client may have any number, which share their first 64 bits.
    """
    if host is None or ":" not in host:
        return host or ""
    address = ipaddress.IPv6Address(host)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))


def _is_ip(host: str, *, version: int) -> bool:
    try:
        return ipaddress.ip_address(host).version == version
    except ValueError:
        return False


_EXPECTED = 'an address such as ":8080", "127.0.0.1:8080" or "[::1]:8080" is expected, or "0" for none'


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


def parse_bind_address(text: str) -> BindAddress | None:
    """Parse the address to listen at; return None for `0`, which turns the server off.

    Raises `ValueError`, with a message that says what is expected.
    """
    if text == "0":
        return None
    parts = split_address(text)
    if parts is None:
        raise ValueError(_EXPECTED)
    return BindAddress(*parts)
