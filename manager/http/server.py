"""Serving a few pages over plain HTTP for as long as a context lasts."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from manager.http.address import BindAddress
from manager.logs import get_logger

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["CannotListen", "Page", "serve"]

Page = Callable[["web.Request"], Awaitable["web.Response"]]

_log = get_logger("http")

_FINISH_TIMEOUT = 0.5
"""Seconds that answers under way may take once the server stops."""

_BACKLOG = 128

_NO_IPV6 = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
"""How binding fails where IPv6 is compiled in but switched off."""


class CannotListen(OSError):
    """An address cannot be listened on; the message says which, what for and why."""


@asynccontextmanager
async def serve(name: str, address: BindAddress, pages: Mapping[str, Page]) -> AsyncIterator[BindAddress]:
    """Serve `pages`, by path, at `address`, and yield the address with the port that was bound.

    `name` says in messages what is served. A path may have a variable part (`/healthz/{name}`).
    Raises `CannotListen`, for one when the port is in use.
    """
    # Imported only where something is served: it costs 3 MB.
    from aiohttp import web  # noqa: PLC0415

    listening = await _listen(name, address)
    app = web.Application()
    for path, page in pages.items():
        app.router.add_get(path, page)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_FINISH_TIMEOUT)
    try:
        await runner.setup()
        await web.SockSite(runner, listening, backlog=_BACKLOG).start()
        bound = BindAddress(address.host, listening.getsockname()[1])
        _log.info("serving", what=name, address=str(bound))
        yield bound
    finally:
        await runner.cleanup()
        listening.close()


async def _listen(name: str, address: BindAddress) -> socket.socket:
    try:
        if not address.host:
            return _listen_everywhere(address.port)
        found = await asyncio.get_running_loop().getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, where = found[0]
        return _bound(family, (str(where[0]), int(where[1])))
    except OSError as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise CannotListen(f"cannot serve {name} on {address}: {reason}") from error


def _listen_everywhere(port: int) -> socket.socket:
    """On all interfaces, by IPv6 for both families where the machine has it."""
    if socket.has_dualstack_ipv6():
        try:
            return _bound(socket.AF_INET6, ("", port), dual_stack=True)
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
    return _bound(socket.AF_INET, ("", port))


def _bound(family: int, where: tuple[str, int], *, dual_stack: bool = False) -> socket.socket:
    return socket.create_server(where, family=family, backlog=_BACKLOG, dualstack_ipv6=dual_stack)
