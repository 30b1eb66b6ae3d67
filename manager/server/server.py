"""Handlers of aiohttp.web, served inside a context, optionally only to users with a right."""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast

from aiohttp import HttpVersion11, web
from aiohttp.streams import StreamReader
from aiohttp.typedefs import Handler

from manager.server import Limits
from manager.server.access import Access, Place, ReviewFailed, TooManyQuestions, User
from manager.server.connection import SERVER, Acceptor, ClientConnection, last_response
from manager.telemetry.logs import get_logger
from manager.tls.key_pair import CertificateUnusable
from manager.tls.served import ServedCertificate
from manager.util.address import BindAddress, client_at
from manager.util.rate_limit import Lines

Routes = Iterable[web.AbstractRouteDef]

_DEFAULTS = Limits()

_BACKLOG = 128

_FIELDS = 100
"""The number of fields in a query."""

_LONGEST_LENGTH = 20
"""The number of digits in a Content-Length."""

_CANCELLED = 1.0
"""Seconds for cancelled handlers to end."""

_FAULTS_LOGGED = 5
"""Log lines per minute about failures of handlers: a client may cause them again and again."""

_NO_IPV6 = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
"""The errors of binding if IPv6 is compiled in but switched off."""

_log = get_logger("http")
_access_log = get_logger("access")

_asking: ContextVar[User | None] = ContextVar("asking", default=None)

Asks = Callable[[web.Request], tuple[str, str | Place]]
"""Returns the right that a request needs: a verb, and a path or an object."""


class CannotServe(OSError):
    """Pages cannot be served; the one-line message names them and the reason."""


@asynccontextmanager
async def serve(
    name: str,
    address: BindAddress,
    routes: Routes = (),
    *,
    certificate: ServedCertificate | None = None,
    access: Access | None = None,
    limits: Limits = _DEFAULTS,
    leaving: Callable[[], bool] = lambda: False,
    flag: str = "",
    any_port: bool = False,
) -> AsyncIterator[Server]:
    """Serve `routes` at `address`.

    In messages, `name` describes the pages, and `flag` is the flag for the address. With `any_port`, another
    port of the same host is used, with a warning, if the port of `address` is in use. With a certificate,
    which is kept up to date, the server uses HTTPS, else plain HTTP. With `access`, clients need a token
    of a user for whom RBAC allows the HTTP method on the path.

    While `leaving` returns True, each answer ends its connection, so that clients connect elsewhere before
    the end. An answer also ends the connection if the client's certificate is no longer accepted. At the end,
    no new connection is accepted. Requests that have begun to arrive are answered within the time in
    `limits`. Then all connections are closed, and running handlers are cancelled.

    Raises `CannotServe`, for example if the port is in use, the certificate is unusable, or two routes are
    the same.
    """
    async with AsyncExitStack() as stack:
        if certificate is not None:
            try:
                await stack.enter_async_context(certificate.refreshed())
            except CertificateUnusable as error:
                raise CannotServe(f"cannot serve {name} on {address}: {error}") from error
        listening = await _listen(name, address, flag, any_port=any_port)
        stack.callback(listening.close)
        bound = BindAddress(address.host, listening.getsockname()[1])
        server = Server(name, bound, certificate, access, leaving)
        await server.add_routes(routes)
        await stack.enter_async_context(server.answering(listening, limits))
        _log.info("serving", what=name, address=str(bound), **server.urls())
        yield server


@dataclass(eq=False)
class Server:
    """An HTTP server with a handler per route (see `serve`); routes can be added while it listens."""

    name: str
    address: BindAddress
    """The address with the actual port."""

    certificate: ServedCertificate | None
    access: Access | None
    leaving: Callable[[], bool]
    _is_ending: bool = field(default=False, init=False)
    _routes: list[web.AbstractRouteDef] = field(default_factory=list, init=False)
    _handler: Handler = field(init=False)
    _faults: Lines = field(default_factory=lambda: Lines(per_minute=_FAULTS_LOGGED), init=False)

    async def add_routes(self, routes: Routes) -> None:
        """Serve more routes. Raises `CannotServe` for a route that is invalid or already served."""
        # An aiohttp application accepts no routes after its set-up, so create another one.
        wanted, taken = [*self._routes, *routes], set[tuple[str, str]]()
        app = web.Application()
        app.on_response_prepare.append(self._finish_headers)
        for route in wanted:
            if isinstance(route, web.RouteDef):
                if (route.method, route.path) in taken:
                    twice = f"{route.method} {route.path} is registered twice"
                    raise CannotServe(f"cannot serve {self.name}: {twice}")
                taken.add((route.method, route.path))
            try:
                app.add_routes([route])
            except (RuntimeError, ValueError) as error:
                raise CannotServe(f"cannot serve {self.name}: {route}: {error}") from error
        runner = web.AppRunner(app)
        await runner.setup()
        assert runner.server is not None
        handler = cast("Handler", runner.server.request_handler)
        self._handler = handler if self.access is None else guarded(handler, self.access)
        self._routes = wanted

    def urls(self) -> dict[str, list[str]]:
        """Return the URLs by which a person on this machine reaches the server, for a log line."""
        scheme = "https" if self.certificate is not None else "http"
        address = BindAddress(self.address.host or "localhost", self.address.port)
        paths = [
            each.path for each in self._routes if isinstance(each, web.RouteDef) and each.method == "GET"
        ]
        shown = [path for path in paths if path == "/" or not ("{" in path or path.endswith("/"))]
        return {"urls": [f"{scheme}://{address}{path}" for path in shown]} if paths else {}

    @asynccontextmanager
    async def answering(self, listening: socket.socket, limits: Limits) -> AsyncIterator[None]:
        """Answer the requests of all connections to `listening`."""
        server = web.Server(self._answer, request_factory=_request, handler_cancellation=True)
        acceptor = Acceptor(listening, server, self.certificate, limits)
        accepting = asyncio.create_task(acceptor.accept(), name="http-accept")
        try:
            yield
        finally:
            self._is_ending = True
            await acceptor.drain(accepting)
            await acceptor.end()
            await server.shutdown(_CANCELLED)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = cast("ClientConnection", request.protocol)
        if connection.lost.is_set():
            raise ConnectionResetError("the connection is lost")
        refusal = _malformed(request)
        connection.begin_answer(None if refusal else request.content_length or 0)
        try:
            return await self._send(request, refusal or await self._handler(cast("web.Request", request)))
        except web.HTTPException as error:
            return await self._send(request, _response_of(error))
        except Exception as error:
            if request.transport is None or request.transport.is_closing():
                raise  # the client is gone
            self._faults.log(_log.error, "a page failed", path=request.path, exc_info=error)
            if request.writer.output_size:
                raise
            text = "this page failed; see the manager's log\n"
            return await self._send(request, web.Response(status=500, text=text))
        finally:
            connection.end_answer()

    async def _send(self, request: web.BaseRequest, response: web.StreamResponse) -> web.StreamResponse:
        """Send an answer, or its rest if it has begun; meanwhile, the connection does not count as idle."""
        if not response.prepared:
            if request.writer.output_size:
                raise ConnectionResetError("a part of another answer has been sent")
            await self._finish_headers(request, response)
            await response.prepare(request)
        await response.write_eof()
        return response

    async def _finish_headers(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        if request.method == "HEAD":
            request.writer.length = 0  # a streaming handler does not set the length
        response.headers.update(SERVER)
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        if request.version < HttpVersion11 or not request.content.is_eof() or self._is_last(request):
            response.force_close()
            response.headers["Connection"] = "close"

    def _is_last(self, request: web.BaseRequest) -> bool:
        if self._is_ending or self.leaving():
            return True
        about, certificate = request.get_extra_info, self.certificate
        return certificate is not None and not certificate.lets_in(about("sslcontext"), about("peercert"))


def _request(
    message: Any, payload: StreamReader, protocol: web.RequestHandler, writer: Any, task: asyncio.Task[None]
) -> web.Request:
    return web.Request(message, payload, protocol, writer, task, asyncio.get_running_loop())


def _malformed(request: web.BaseRequest) -> web.Response | None:
    if "Transfer-Encoding" in request.headers:
        return last_response(411)  # chunked bodies have no limit, and none of our clients sends them
    length = request.headers.get("Content-Length", "")
    if len(length) > _LONGEST_LENGTH or request.rel_url.raw_query_string.count("&") >= _FIELDS:
        return last_response(400)
    return None


def _response_of(error: web.HTTPException) -> web.Response:
    """Return a copy of the answer, and free the handler's data, which the error's traceback refers to."""
    error.__traceback__ = None
    response = web.Response(status=error.status, reason=error.reason, headers=error.headers, body=error.body)
    for cookie in error.cookies.values():
        response.headers.add("Set-Cookie", cookie.OutputString())
    return response


async def _listen(name: str, address: BindAddress, flag: str, *, any_port: bool) -> socket.socket:
    create = functools.partial(socket.create_server, backlog=_BACKLOG)
    try:
        if address.host:
            found = await asyncio.get_running_loop().getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            family, _, _, _, where = found[0]
            return create((str(where[0]), int(where[1])), family=family)
        # Listen on all interfaces, with IPv6 for both families if the machine supports it.
        if socket.has_dualstack_ipv6():
            try:
                return create(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True)
            except OSError as error:
                if error.errno not in _NO_IPV6:
                    raise
        return create(("", address.port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE and any_port:
            _log.warning("address in use: using another port", what=name, address=str(address), flag=flag)
            return await _listen(name, BindAddress(address.host, 0), flag, any_port=False)
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        named = f"{address} ({flag})" if flag else f"{address}"
        raise CannotServe(f"cannot serve {name} on {named}: {reason}") from error


def path_itself(request: web.Request) -> tuple[str, str]:
    """Return the right that a request needs: its method, in lower case, on its path."""
    return request.method.lower(), request.path


def who_asks() -> User | None:
    """Return the user whose request the current task answers; None in a handler that is not guarded."""
    return _asking.get()


def guarded(handler: Handler, access: Access, asks: Asks = path_itself) -> Handler:
    """Return a handler for clients with a bearer token whose user has the right returned by `asks`.

    The answers are those of controller-runtime, but with 401 for a token that the API server refuses, and 429
    if the API server would be asked too often. Client certificates are not requested: a pod does not know the
    authority that the API server trusts for clients.
    """
    is_outage_logged, answered = False, 0
    lines = Lines(per_minute=_FAULTS_LOGGED)

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal is_outage_logged, answered
        token = _bearer_token(request.headers.getall("Authorization", ()))
        if token is None:
            return _refusal(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        try:
            verdict = await access.verdict(token, *asks(request), client=client_at(request.remote))
            # A verdict without a user, or without any review since the failure, does not prove a recovery.
            if is_outage_logged and verdict.user is not None and access.answered > answered:
                event = "access reviews for this page succeed again"
                is_outage_logged = not lines.log(_access_log.info, event, path=request.path)
            if verdict.user is None:
                _access_log.debug("refused a token that the API server does not accept", path=request.path)
                return _refusal(HTTPStatus.UNAUTHORIZED, "Unauthorized")
            if not verdict.allowed:
                _access_log.debug(
                    "refused a user without the right to this page", path=request.path, user=verdict.user.name
                )
                return _refusal(HTTPStatus.FORBIDDEN, f"Authorization denied for user {verdict.user.name}")
            _asking.set(verdict.user)  # in the task that answers this request
            return await handler(request)
        except ReviewFailed as error:
            answered = access.answered
            if not is_outage_logged:
                event = "access reviews for this page fail"
                is_outage_logged = lines.log(_access_log.warning, event, path=request.path, error=str(error))
            what = "Authentication" if error.user is None else f"Authorization for user {error.user.name}"
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR, f"{what} failed")
        except TooManyQuestions as error:
            _access_log.debug("refused a page: too many access reviews", path=request.path, reason=str(error))
            return _refusal(HTTPStatus.TOO_MANY_REQUESTS, "Too many questions")

    return answer


def _refusal(status: HTTPStatus, text: str) -> web.Response:
    response = web.Response(status=status, text=f"{text}\n", headers={"Cache-Control": "no-store"})
    if status == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = "Bearer"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        response.headers["Retry-After"] = "1"
    return response


def _bearer_token(headers: Sequence[str]) -> str | None:
    """Return the bearer token if there is exactly one Authorization header, with such a token; else None."""
    if len(headers) != 1:
        return None
    scheme, _, token = headers[0].strip().partition(" ")
    token = token.strip()
    is_token = token and token.isascii() and token.isprintable() and " " not in token
    return token if is_token and scheme.lower() == "bearer" else None
