"""Where a server listens: `:8080`, `127.0.0.1:8080`, `[::]:8080`; `0` for nowhere."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

_EXPECTED = 'an address such as ":8080", "127.0.0.1:8080" or "[::1]:8080" is expected, or "0" for none'

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


def parse_address(text: str) -> BindAddress | None:
    """The address written in `text`; None when it is `0`, which turns the server off.

    Raises `ValueError`, with a message that says what is expected.
    """
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > _MAX_PORT:
        raise ValueError(_EXPECTED)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if not _is_ip(host, version=6):
            raise ValueError(_EXPECTED)
    elif host and not _is_ip(host, version=4) and not _is_name(host):
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
