"""The request to a SOCKS5 proxy (RFC 1928) that precedes everything else on a connection."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_address

from yarl import URL

from manager.kube.errors import Unreachable

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


async def connect(connected: socket.socket, proxy: URL, host: str, port: int) -> None:
    """Have the proxy at the other end of the socket connect to a host, whose name it looks up itself.

    Raises Unreachable when it refuses, and OSError when the connection breaks.
    """
    user, password = (part.encode() for part in (proxy.user or "", proxy.password or ""))
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(
        connected, bytes((_VERSION, 2, _NO_USER, _USER) if user else (_VERSION, 1, _NO_USER))
    )
    version, method = await _read(connected, 2)
    if version != _VERSION:
        raise OSError("the proxy does not speak SOCKS5")
    if method == _USER and user:
        if max(len(user), len(password)) > _LONGEST:
            raise Unreachable("user or password of the proxy are longer than SOCKS5 allows")
        await loop.sock_sendall(connected, bytes((1, len(user))) + user + bytes((len(password),)) + password)
        _, refused = await _read(connected, 2)
        if refused:
            raise Unreachable("the proxy refuses user and password")
    elif method != _NO_USER:
        raise Unreachable("the proxy wants a user" if not user else "the proxy takes no user and password")
    await loop.sock_sendall(
        connected, bytes((_VERSION, _CONNECT, 0)) + _address(host) + port.to_bytes(2, "big")
    )
    _, answer, _, kind = await _read(connected, 4)
    if answer:
        raise Unreachable(f"the proxy cannot connect to it: {_REFUSALS.get(answer, f'code {answer}')}")
    length = {_IPV4: 4, _IPV6: 16}.get(kind)
    if length is None:
        [length] = await _read(connected, 1)
    await _read(connected, length + 2)  # where it has connected from


def _address(host: str) -> bytes:
    try:
        packed = ip_address(host).packed
    except ValueError:
        name = host.encode("idna") if not host.isascii() else host.encode()
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
