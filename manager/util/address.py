"""Addresses of servers and proxies, to connect to or to listen on."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from yarl import URL

_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")
_MAX_PORT = 65535
_DIGITS = re.compile(r"[0-9]{1,5}")


def parse_address(text: str) -> str:
    """Return the address of a server to connect to, unchanged: `petstore:6742`, `[::1]:6742`.

    Raises `ValueError` with the expected form in its message.
    """
    parts = split_address(text)
    if parts is None or not parts[0] or not parts[1]:
        raise ValueError('a host and a port such as "localhost:6742" or "[::1]:6742" are expected')
    return text


def split_address(text: str) -> tuple[str, int] | None:
    """Split an address into the host (without brackets, or "") and the port (or 0); None if invalid."""
    host, colon, port = text.rpartition(":")
    if not colon or not _DIGITS.fullmatch(port) or int(port) > _MAX_PORT:
        return None
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        return (host, int(port)) if _is_ip(host, version=6) else None
    # Digits and dots alone are an invalid IPv4 address, not a name.
    is_name = _HOST_NAME.fullmatch(host) is not None and not host.replace(".", "").isdigit()
    if host and not is_name and not _is_ip(host, version=4):
        return None
    return host, int(port)


def in_pod(environ: Mapping[str, str]) -> bool:
    """Return whether this process runs in a cluster: every pod has variables for the API server."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST") and environ.get("KUBERNETES_SERVICE_PORT"))


def is_loopback(host: str) -> bool:
    """Return whether `host` is reachable only from this machine: `localhost`, `127.0.0.1`, `::1`."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # Python before 3.13 does not check an IPv4 address in IPv6 notation.
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def client_at(host: str | None) -> str:
    """Return the identity of the client at IP address `host`, for limits per client.

    An IPv4 client has one address. An IPv6 client may have many, all with the same first 64 bits.
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
    """The port; 0 lets the system choose a free port."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_bind_address(text: str) -> BindAddress | None:
    """Parse an address to listen on; return None for `0`, which turns the server off.

    Raises `ValueError` with the expected form in its message.
    """
    if text == "0":
        return None
    parts = split_address(text)
    if parts is None:
        raise ValueError(_EXPECTED)
    return BindAddress(*parts)


_SOCKS = "socks5://"
_SOCKS_PORT = 1080


class NotAProxy(ValueError):
    """A proxy address is invalid; the one-line message never quotes it, because it may have a password."""


def proxy_for(server: URL, environ: Mapping[str, str]) -> URL | None:
    """Return the proxy for a server by HTTPS_PROXY (or HTTP_PROXY for plain HTTP) and NO_PROXY, or None.

    Upper-case names take precedence. A server at a loopback address is never proxied. Raises `NotAProxy`.
    """
    upper = f"{server.scheme.upper()}_PROXY"
    variable = upper if environ.get(upper) else upper.lower()
    address = environ.get(variable)
    if not address or _is_exempt(server, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return None
    return proxy_url(address, source=variable)


def proxy_url(address: str, *, source: str) -> URL:
    """Return a proxy's address as a URL with its port; the default scheme is http. Raises `NotAProxy`."""
    if address.startswith(_SOCKS):
        # The same rules apply, with another default port.
        if (url := http_url(f"http{address.removeprefix('socks5')}")) is not None:
            return url.with_port(url.explicit_port or _SOCKS_PORT).with_scheme("socks5")
    elif (url := http_url(address if "://" in address else f"http://{address}")) is not None:
        return url
    raise NotAProxy(
        f"{source}: not the URL of an http://, https:// or socks5:// proxy "
        "(in a password, '/' is written %2F)"
    )


def http_url(address: str) -> URL | None:
    """Parse an http or https URL; None if invalid, or if a part of a password could be read as the host."""
    with suppress(ValueError):
        url = URL(address)
        # A "/", "?" or "#" in a password ends the host for URL parsers, and an "@" follows it.
        if url.scheme in {"http", "https"} and url.host and url.port and "@" not in str(url.with_user(None)):
            return url
    return None


def _is_exempt(server: URL, no_proxy: str) -> bool:
    host = (server.host or "").lower().rstrip(".")
    if is_loopback(host):
        return True
    return any(_matches(host, server.port, entry.strip().lower()) for entry in no_proxy.split(","))


def _matches(host: str, port: int | None, entry: str) -> bool:
    """Return whether an entry of NO_PROXY (an address, a network, a domain, or `*`) covers a host."""
    if not entry:
        return False
    if entry == "*":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    name, colon, number = entry.rpartition(":")
    if colon and number.isdigit():
        if port != int(number):
            return False
        entry = name.strip("[]")
    if entry.startswith(("*.", ".")):
        return host.endswith(entry.removeprefix("*"))
    return host == entry or host.endswith(f".{entry}")
