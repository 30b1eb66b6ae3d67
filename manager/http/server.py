"""Serving a few pages, over HTTP or HTTPS, for as long as a context lasts."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakSet

from manager.address import BindAddress
from manager.http.connection import Limits
from manager.http.connections import Connections
from manager.http.protocol import HttpProtocol
from manager.http.request import Request
from manager.http.response import Response
from manager.http.routes import Page, Routes
from manager.logs import get_logger
from manager.rate_limit import Lines
from manager.tls.key_pair import CertificateUnusable
from manager.tls.served import ServedCertificate

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
    any_port: bool = False,
) -> AsyncIterator[BindAddress]:
    """Serve `pages`, by path, at `address`, and yield the address with the port that was bound.

    With `any_port`, another port of the same host is used, with a warning, when that of `address` is in use.

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
        listening = await _listen(name, address, flag, any_port=any_port)
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
    faults = Lines(per_minute=_FAULTS_TOLD)
    routes, protocols = Routes(pages, posts), WeakSet[HttpProtocol]()
    is_ending = False

    async def answer(request: Request) -> None:
        # None of our clients sends in chunks, and how much comes then is anybody's guess.
        length = None if request.in_chunks else request.content_length
        with connections.answering(request.sender, request.body.is_whole, length):
            try:
                response = Response(status=411) if request.in_chunks else await routes.answer(request)
                # Sent here rather than after, so that it belongs to what `answering` covers.
                await response.send(request)
            except ConnectionError:
                raise  # nobody is there to be told
            except Exception as error:  # noqa: BLE001 - a fault of ours, and told as one
                faults.tell(_log.error, "a page failed", path=request.path, exc_info=error)
                text = "this page failed; the log of the manager says more\n"
                await Response(status=500, text=text).send(request)

    def is_last(request: Request) -> bool:
        if is_ending or leaving():
            return True
        about = request.get_extra_info
        return certificate is not None and not certificate.lets_in(about("sslcontext"), about("peercert"))

    def protocol() -> HttpProtocol:
        made = HttpProtocol(answer, is_last)
        protocols.add(made)
        return made

    connections = Connections(listening, protocol, certificate=certificate, limits=limits)
    accepting = asyncio.create_task(connections.accept(), name="http-accept")
    try:
        yield
    finally:
        is_ending = True
        await connections.drain(accepting)
        await _ended([each.task for each in protocols if each.task is not None])
        await connections.end()


async def _ended(answers: Sequence[asyncio.Task[None]]) -> None:
    """Return when all have ended; those that take long are cancelled."""
    if answers:
        _, late = await asyncio.wait(answers, timeout=_CANCELLED)
        for each in late:
            each.cancel()
        await asyncio.wait(answers)


async def _listen(name: str, address: BindAddress, flag: str, *, any_port: bool) -> socket.socket:
    try:
        if not address.host:
            return _listen_everywhere(address.port)
        found = await asyncio.get_running_loop().getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, where = found[0]
        return _bound(family, (str(where[0]), int(where[1])))
    except OSError as error:
        if error.errno == errno.EADDRINUSE and any_port:
            _log.warning(f"{address} is in use, so {name} is served on another port; {flag} sets one")
            return await _listen(name, BindAddress(address.host, 0), flag, any_port=False)
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
