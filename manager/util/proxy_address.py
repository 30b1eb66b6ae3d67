"""Selection of the proxy between this process and a server, from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network

from yarl import URL

from manager.util.address import is_loopback

_SOCKS = "socks5://"
_SOCKS_PORT = 1080


class NotAProxy(ValueError):
    """Invalid proxy address; the one-line message quotes no part of it, as that may be a password."""


def proxy_for(server: URL, environ: Mapping[str, str]) -> URL | None:
    """Return the proxy for a server by HTTPS_PROXY (or HTTP_PROXY for plain HTTP) and NO_PROXY, or None.

    Upper-case names take precedence. A server on this machine is never proxied. Raises `NotAProxy`.
    """
    variable = f"{server.scheme.upper()}_PROXY"
    address = environ.get(variable) or environ.get(variable.lower())
    if not address or _is_exempt(server, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return None
    return proxy_url(address, source=variable)


def proxy_url(address: str, *, source: str) -> URL:
    """Return a proxy's address as a URL with its port; without a scheme it is http. Raises `NotAProxy`."""
    if address.startswith(_SOCKS):
        # The same rules hold, and another port where none is said.
        if (url := http_url(f"http{address.removeprefix('socks5')}")) is not None:
            return url.with_port(url.explicit_port or _SOCKS_PORT).with_scheme("socks5")
    elif (url := http_url(address if "://" in address else f"http://{address}")) is not None:
        return url
    raise NotAProxy(
        f"{source}: not the URL of an http://, https:// or socks5:// proxy "
        "(in a password, '/' is written %2F)"
    )


def http_url(address: str) -> URL | None:
    """Parse an http or https URL, perhaps with a password; None if the password could be read as the host."""
    try:
        url = URL(address)
        # After a "/", "?" or "#" in a password, which ends the host for whoever reads URLs, there is an "@".
        if url.scheme in {"http", "https"} and url.host and url.port and "@" not in str(url.with_user(None)):
            return url
    except ValueError:
        pass
    return None


def _is_exempt(server: URL, no_proxy: str) -> bool:
    host = (server.host or "").lower().rstrip(".")
    if is_loopback(host):
        return True
    return any(_matches(host, server.port, entry.strip().lower()) for entry in no_proxy.split(","))


def _matches(host: str, port: int | None, entry: str) -> bool:
    """Return whether an entry of NO_PROXY covers a host: an address, network or domain, or `*`."""
    if not entry:
        return False
    if entry == "*":
        return True
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        pass
    name, colon, number = entry.rpartition(":")
    if colon and number.isdigit():
        if port != int(number):
            return False
        entry = name.strip("[]")
    if entry.startswith(("*.", ".")):
        return host.endswith(entry.removeprefix("*"))
    return host == entry or host.endswith(f".{entry}")
