"""Serving a few pages, over HTTP or HTTPS, for as long as a context lasts."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

from manager.address import BindAddress
from manager.http.connection import Limits
from manager.http.connections import Connections
from manager.logs import get_logger
from manager.rate_limit import Lines
from manager.tls.key_pair import CertificateUnusable
from manager.tls.served import ServedCertificate

if TYPE_CHECKING:
    from aiohttp import web

Page = Callable[["web.Request"], Awaitable["web.StreamResponse"]]

_DEFAULTS = Limits()

_log = get_logger("http")

_BACKLOG = 128

_CANCELLED = 0.1
"""Seconds for answers to end that have taken too long and are cancelled."""

_FAULTS_TOLD = 5
"""How many faults of pages are told in a minute: anybody can call them again and again."""

_NO_IPV6 = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
"""How binding fails where IPv6 is compiled in but switched off."""


class CannotServe(OSError):
    """Something cannot be served; the message says what, where and why."""


class CannotListen(CannotServe):
    """An address cannot be listened on."""


@asynccontextmanager
async def serve(
    name: str,
    address: BindAddress,
    pages: Mapping[str, Page] | None = None,
    *,
    certificate: ServedCertificate | None = None,
    posts: Mapping[str, Page] | None = None,
    limits: Limits = _DEFAULTS,
    leaving: Callable[[], bool] = lambda: False,
    flag: str = "",
) -> AsyncIterator[BindAddress]:
    """Serve `pages`, by path, at `address`, and yield the address with the port that was bound.

    `name` says in messages what is served, and `flag` what sets the address. A path may have a variable part
    (`/healthz/{name}`). With a certificate it is HTTPS, and the certificate is kept current meanwhile; else
    it is plain HTTP. Pages answer to GET and HEAD, and `posts`, by path as well, to POST. While `leaving`
    says yes, each answer is the last of its connection, so that clients who keep theirs go elsewhere before
    the end; so is that to a client whose certificate would not let it in any more.

    At the end no connection is taken any more, and what has been asked for, in part at least, is answered
    within the time that `limits` gives for that. Then all connections are closed.
    Raises `CannotListen`, for one when the port is in use, and `CannotServe` without a usable certificate.
    """
    async with AsyncExitStack() as stack:
        if certificate is not None:
            try:
                await stack.enter_async_context(certificate.kept_current())
            except CertificateUnusable as error:
                raise CannotServe(f"cannot serve {name} on {address}: {error}") from error
        listening = await _listen(name, address, flag)
        stack.callback(listening.close)
        pages, posts = pages or {}, posts or {}
        await stack.enter_async_context(_answering(pages, posts, listening, certificate, limits, leaving))
        bound = BindAddress(address.host, listening.getsockname()[1])
        urls = {"urls": _urls(bound, pages, certificate)} if pages else {}
        _log.info("serving", what=name, address=str(bound), **urls)
        yield bound


def _urls(
    address: BindAddress, pages: Mapping[str, Page], certificate: ServedCertificate | None
) -> list[str]:
    """Those that a person can follow from here; what listens everywhere is there as localhost, too."""
    scheme, host = "https" if certificate is not None else "http", address.host or "localhost"
    where = f"[{host}]" if ":" in host else host
    return [
        f"{scheme}://{where}:{address.port}{path}" for path in pages if path == "/" or path[-1] not in "/}"
    ]


@asynccontextmanager
async def _answering(
    pages: Mapping[str, Page],
    posts: Mapping[str, Page],
    listening: socket.socket,
    certificate: ServedCertificate | None,
    limits: Limits,
    leaving: Callable[[], bool],
) -> AsyncIterator[None]:
    # Imported only where something is served: it costs 3 MB.
    from aiohttp import web  # noqa: PLC0415

    faults = Lines(per_minute=_FAULTS_TOLD)
    is_ending = False

    @web.middleware
    async def timed(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        # None of our clients sends in chunks, and how much comes then is anybody's guess.
        in_chunks = "Transfer-Encoding" in request.headers
        length = None if in_chunks else request.content_length or 0
        with connections.answering(request.protocol, request.content.is_eof, length):
            response: web.StreamResponse
            try:
                response = web.Response(status=411) if in_chunks else await handler(request)
            except web.HTTPException as refusal:
                response = refusal.with_traceback(None)  # else this frame and it hold each other
            except ConnectionError:
                raise  # nobody is there to be told
            except Exception as error:  # noqa: BLE001 - a fault of ours, and told as one
                faults.tell(_log.error, "a page failed", path=request.path, exc_info=error)
                response = web.Response(
                    status=500, text="this page failed; the log of the manager says more\n"
                )
            if not request.content.is_eof():
                response.force_close()  # what is left of the body is not worth reading
            # Sent here rather than after, so that it belongs to what `answering` covers.
            with suppress(ConnectionError):
                await response.prepare(request)
                await response.write_eof()
            return response

    def is_last(request: web.Request) -> bool:
        if is_ending or leaving():
            return True
        about = request.get_extra_info
        return certificate is not None and not certificate.lets_in(about("sslcontext"), about("peercert"))

    async def take_leave(request: web.Request, response: web.StreamResponse) -> None:
        if is_last(request):
            response.headers["Connection"] = "close"
            response.force_close()

    app = web.Application(middlewares=[timed])
    app.on_response_prepare.append(take_leave)
    for path, page in pages.items():
        app.router.add_get(path, page)
    for path, page in posts.items():
        app.router.add_post(path, page)
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_ClientsFaults(),
        handle_signals=False,
        shutdown_timeout=_CANCELLED,
        keepalive_timeout=limits.keep_alive,
        lingering_time=limits.goodbye,  # with the rest of a body that no page has read
        # Nobody who asks us compresses; and a kilobyte could be a megabyte before any page has seen it.
        auto_decompress=False,
    )
    await runner.setup()
    assert runner.server is not None
    connections = Connections(listening, runner.server, certificate=certificate, limits=limits)
    accepting = asyncio.create_task(connections.accept(), name="http-accept")
    try:
        yield
    finally:
        is_ending = True
        await connections.drain(accepting)
        await runner.cleanup()
        await connections.end()


class _ClientsFaults:
    """What aiohttp has to say of requests: only that they were none, as faults of pages are caught before.

    Anybody can send such, as many as they like, so there is nothing of it but on the level for debugging.
    """

    def debug(self, message: str, *args: object, exc_info: object = None) -> None:
        """In place of what a `logging.Logger` does."""
        _log.debug("not a request", what=message % args, error=_brief(exc_info))
        if isinstance(exc_info, BaseException):
            # It holds what has come, and is held by it: until garbage is collected, which is seldom.
            exc_info.__traceback__ = None

    info = warning = error = exception = debug


def _brief(error: object) -> str | None:
    if not isinstance(error, BaseException):
        return None
    return type(error).__name__  # what it says quotes the request, with the token that may be in it


async def _listen(name: str, address: BindAddress, flag: str) -> socket.socket:
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
        told = f"{address} ({flag})" if flag else f"{address}"
        raise CannotListen(f"cannot serve {name} on {told}: {reason}") from error


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
