"""The server of all webhooks of a process: headers, bodies, scheduling, status and metrics of each review."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from manager.server import Limits
from manager.server.server import serve
from manager.telemetry.logs import get_logger
from manager.telemetry.metrics import Metrics
from manager.telemetry.tracing import current_tracer
from manager.tls.served import ServedCertificate
from manager.util.address import BindAddress
from manager.util.duration import parse_duration
from manager.util.loop import SMALL
from manager.util.rate_limit import Lines
from manager.webhook.endpoint import LINES, Endpoint, TooCostly, Unanswered

LIMITS = Limits(
    connections=256,  # one review at a time per connection; API servers open as many as they have requests
    exchange=180.0,  # more than 10 s for a body, 30 s for an answer and 10 s to read it
    keep_alive=120.0,  # longer than the 90 s of API servers, so that they close connections first
    drain=10.0,  # a review's default time limit
)

_JSON = "application/json"

_PIECE = 64 * 1024
"""Bytes of an answer that are sent in one step."""

_EXPECTED_CODES = (200, 500)
"""Codes counted from the start, as in controller-runtime, so that a first failure is an increase."""

_LONGEST_WAIT = 32
"""The maximum length of an API server's time limit, such as `10s` or `1m30s`."""

_log = get_logger("webhook")


@dataclass(eq=False, slots=True)
class Held:
    """A request with its body, and with the memory that `Bodies` has reserved for it."""

    request: web.Request
    body: bytes | bytearray = b""
    counted: int = 0
    """Bytes that are reserved for the body and its answer; 0 after another request took the room."""

    def cut_off(self) -> None:
        """Close the connection of the request."""
        if (transport := self.request.transport) is not None:
            transport.abort()


@dataclass(eq=False, kw_only=True)
class Bodies:
    """A memory limit for the bodies of all requests and their answers together.

    A small body is not counted. A larger one waits until there is room for it and an answer of its length;
    the smallest waiting body is first. If a client sends its body or reads its answer too slowly, its
    connection may be closed to make room.
    """

    at_once: int = 24 * 1024 * 1024
    """Bytes of all bodies and answers."""

    small: int = SMALL
    """Bytes of a body that needs no reservation."""

    seconds: float = 10.0
    """Seconds for receiving a whole body."""

    taken_within: float = 10.0
    """Seconds for a client to read the answer."""

    patience: float = 1.0
    """Seconds after which a slow client loses its room if others wait."""

    waits: float = 5.0
    """Seconds after which a request without room is refused."""

    held: int = field(default=0, init=False)
    """The number of reserved bytes."""

    def __post_init__(self) -> None:
        self._waited_for: dict[Held, float] = {}
        """Requests that wait for their client, with the loop time since when; the longest wait first."""
        self._line: set[tuple[int, int]] = set()
        """The number of bytes that each waiting request needs, with a unique number."""
        self._numbers = itertools.count()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def held_body(self, request: web.Request, *, limit: int) -> AsyncIterator[Held]:
        """Yield the body of a request, with room reserved for it until the end of the block.

        Send the answer within the block. Raises `Unanswered` if the body has more bytes than `limit` or takes
        too long, or there is no room for it.
        """
        length = request.content_length or 0
        if length > limit:
            raise TooCostly(f"a review here has at most {limit} bytes")
        held = Held(request)
        try:
            if length > self.small:
                await self._find_room(held, 2 * length)
            with self._waiting_for(held):
                held.body = await self._read(request)
            yield held
        finally:
            self._give_back(held)

    async def send(self, answer: bytes | bytearray, held: Held) -> web.StreamResponse:
        """Send an answer within the block of `held_body`; a client that reads too slowly is disconnected.

        A large answer is sent in pieces, because TLS copies everything that is written, even if the client
        does not read.
        """
        response, rest = web.StreamResponse(), answer
        if len(answer) <= _PIECE:
            response, rest = web.Response(body=answer), b""
        response.content_type = _JSON
        response.headers["Content-Length"] = str(len(answer))
        with self._waiting_for(held), suppress(ConnectionError):
            try:
                async with asyncio.timeout(self.taken_within):
                    await response.prepare(held.request)
                    for start in range(0, len(rest), _PIECE):
                        await response.write(rest[start : start + _PIECE])
                    await response.write_eof()
            except TimeoutError:
                held.cut_off()
        return response

    async def _read(self, request: web.Request) -> bytearray:
        body = bytearray()
        try:
            async with asyncio.timeout(self.seconds):
                while part := await request.content.readany():
                    body += part
            return body
        except TimeoutError:
            text = f"the body has not come within {self.seconds:g} s"
            raise Unanswered(text, HTTPStatus.REQUEST_TIMEOUT) from None

    @contextmanager
    def _waiting_for(self, held: Held) -> Iterator[None]:
        self._waited_for[held] = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self._waited_for.pop(held, None)

    async def _find_room(self, held: Held, size: int) -> None:
        place = (size, next(self._numbers))
        self._line.add(place)
        try:
            async with asyncio.timeout(self.waits):
                while place != min(self._line) or not self._is_room(size):
                    self._changed.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self.patience):
                            await self._changed.wait()
        except TimeoutError:
            text = "too much is being answered already; try again"
            raise Unanswered(text, HTTPStatus.SERVICE_UNAVAILABLE) from None
        finally:
            self._line.discard(place)
            self._changed.set()
        held.counted = size
        self.held += size

    def _is_room(self, size: int) -> bool:
        """Return whether `size` more bytes fit, after closing connections of clients that were too slow."""
        latest = asyncio.get_running_loop().time() - self.patience
        slow = [held for held, since in self._waited_for.items() if held.counted and since <= latest]
        for each in slow:
            if self.held + size <= self.at_once:
                break
            # Its handler ends with its connection, in a moment.
            self._give_back(each)
            each.cut_off()
        return self.held + size <= self.at_once

    def _give_back(self, held: Held) -> None:
        self.held -= held.counted
        held.counted = 0
        self._changed.set()


class Turns:
    """A scheduler of reviews: a large review delays neither the event loop nor small reviews for long.

    Several small reviews, with up to `SMALL` bytes in all, begin in the same iteration of the loop.
    """

    def __init__(self, *, waits: float = 5.0) -> None:
        """Create a scheduler; after `waits` seconds, a waiting large review is refused."""
        self._waits = waits
        self._one_at_a_time = asyncio.Lock()
        self._left = SMALL  # bytes that may still begin in this iteration of the loop

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Return a context manager for the work on a review of `size` bytes. Raises `Unanswered`."""
        if size <= SMALL:
            await self._begin(size)
            yield
            return
        try:
            async with asyncio.timeout(self._waits):
                await self._one_at_a_time.acquire()
        except TimeoutError:
            text = "too many large reviews are being answered already; try again"
            raise Unanswered(text, HTTPStatus.SERVICE_UNAVAILABLE) from None
        try:
            await asyncio.sleep(0)
            yield
        finally:
            self._one_at_a_time.release()

    async def _begin(self, size: int) -> None:
        while size > self._left < SMALL:  # noqa: ASYNC110 - it waits for an iteration of the loop
            await asyncio.sleep(0)
        if self._left == SMALL:
            asyncio.get_running_loop().call_soon(self._renew)
        self._left -= size

    def _renew(self) -> None:
        self._left = SMALL


@dataclass(eq=False)
class WebhookServer:
    """The HTTPS server of webhooks, which starts as soon as there is a certificate."""

    address: BindAddress
    endpoints: Sequence[Endpoint[Any]]
    certificate: ServedCertificate
    _: KW_ONLY
    metrics: Metrics
    limits: Limits = LIMITS
    bodies: Bodies = field(default_factory=Bodies)
    stopping: Callable[[], bool] = lambda: False
    """While it returns True, each answer is the last of its connection."""

    bound: BindAddress | None = field(default=None, init=False)
    """The address with the actual port; None while the server does not listen."""

    _turns: Turns = field(default_factory=Turns, init=False)

    @property
    def problem(self) -> str | None:
        """Return the reason why clients should use another replica; None if they may use this one."""
        if self.stopping():
            return "the manager is stopping"
        if self.bound is not None:
            return None
        return self.certificate.problem or f"nothing listens on {self.address} yet"

    async def run(self) -> None:
        """Serve until cancelled; then finish the answers in progress.

        Raises `CannotServe`.
        """
        await self.certificate.obtained()
        try:
            async with serve(
                "webhooks",
                self.address,
                [web.post(each.path, self._review_handler(each)) for each in self.endpoints],
                certificate=self.certificate,
                limits=self.limits,
                leaving=self.stopping,
                flag="--webhook-bind-address",
            ) as server:
                self.bound = server.address
                await asyncio.Event().wait()
        finally:
            self.bound = None

    def _review_handler(self, endpoint: Endpoint[Any]) -> Handler:
        """Return the handler that passes reviews to `endpoint`, and checks client certificates if required.

        Each request gets an answer: 200 with a review, or another status with a `Status`.
        """
        metrics, path = self.metrics, endpoint.path
        in_flight, latency = metrics.webhook_in_flight.labels(path), metrics.webhook_latency.labels(path)
        for code in _EXPECTED_CODES:
            metrics.webhook_requests.labels(path, str(code))
        faults = Lines(per_minute=LINES)

        async def show(request: web.Request) -> web.StreamResponse:
            tracer = current_tracer.get()
            trace = None if tracer is None else tracer.review(path, request.headers)
            response: web.StreamResponse | None = None
            with in_flight.track_inprogress(), latency.time():
                try:
                    response = await self._response(request, endpoint, faults)
                finally:
                    if trace is not None:
                        trace.ended(0 if response is None else response.status)
            metrics.webhook_requests.labels(path, str(response.status)).inc()
            return response

        return show

    async def _response(
        self, request: web.Request, endpoint: Endpoint[Any], faults: Lines
    ) -> web.StreamResponse:
        try:
            _check_head(request, identified=self.certificate.asks_clients and endpoint.identified)
            async with self.bodies.held_body(request, limit=endpoint.max_body) as held:
                async with self._turns.taken(len(held.body)):
                    answer = await endpoint.answer(held.body, waits=_waits(request))
                held.body = b""
                return await self.bodies.send(answer, held)
        except Unanswered as error:
            return _failure(request, error)
        except ConnectionError:
            raise  # the client is gone
        except Exception as error:  # noqa: BLE001 - our own errors are answered like an operator's
            faults.log(_log.error, "a review failed unexpectedly", webhook=endpoint.path, exc_info=error)
            sort = type(error).__name__
            text = f"the webhook failed unexpectedly ({sort}); see the manager's log"
            return _failure(request, Unanswered(text))


def _check_head(request: web.Request, *, identified: bool) -> None:
    if identified and not request.get_extra_info("peercert"):
        raise Unanswered("this path requires a client certificate", HTTPStatus.UNAUTHORIZED)
    encoding = request.headers.get("Content-Encoding", "identity")
    content_type = request.headers.get("Content-Type", "").partition(";")[0].strip()
    if content_type.lower() != _JSON or encoding.lower() != "identity":
        text = f"a review is {_JSON}, not compressed"
        raise Unanswered(text, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)


def _waits(request: web.Request) -> float | None:
    text = request.query.get("timeout", "")
    if len(text) > _LONGEST_WAIT:
        return None
    try:
        seconds = parse_duration(text)
    except ValueError:
        return None
    return seconds if seconds > 0 else None


def _failure(request: web.Request, error: Unanswered) -> web.Response:
    _log.debug("answered with an HTTP error", webhook=request.path, code=int(error.code), reason=str(error))
    response = web.Response(status=error.code, body=error.body, content_type=_JSON)
    if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers["Retry-After"] = "1"
    return response
