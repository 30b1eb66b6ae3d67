"""Sending of requests to an API server: bytes in and out, with retries, deadlines, metrics and a fence."""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, partial
from urllib.parse import quote, urlencode

from manager.kube.errors import (
    ApiError,
    DeadlineExceeded,
    Fenced,
    Forbidden,
    KubeError,
    ProtocolError,
    ServerError,
    ServiceUnavailable,
    TooManyRequests,
    TransportError,
    Unreachable,
    error_from,
)
from manager.kube.wire import LONGEST, WebSocket, Wire, WireRequest
from manager.telemetry.logs import get_logger
from manager.telemetry.metrics import Metrics, Observe, counting, observing
from manager.telemetry.runs import NO_ANSWER, RequestRecord, current_record
from manager.telemetry.tracing import RequestTrace, current_trace
from manager.util.author_code import line_that_asks
from manager.util.backoff import ExponentialDelay
from manager.util.loop import Deadline, Deadlines

_log = get_logger("kube")

DEADLINE = 30.0
"""Seconds for a whole request with its retries and pauses, unless the caller sets a deadline."""

REFUSED_ATTEMPTS = 10
"""The number of attempts while the server answers "not now, come back in n seconds"."""

LONGEST_MESSAGE = 4 * 1024 * 1024
"""Bytes of a message over a WebSocket; API servers send 32 KiB at once."""

READ_ATTEMPTS = 4
"""The number of attempts of a read after other failures."""

_REMEMBERED = 256
"""The number of cached header sets and metrics, and of server warnings that are not logged again."""

_APPLY = "application/apply-patch+yaml"

_OK = 200
_REDIRECT = 300
_UPGRADED = 101

# The code, the warning agent (unused), and the quoted text; several warnings are separated by commas.
_warning = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')

Head = Callable[[int, Mapping[str, str]], None]
"""Gets status and headers of an answer."""

_needed: ContextVar[Callable[[], None] | None] = ContextVar("needed", default=None)
_allowed_after_stop: ContextVar[bool] = ContextVar("allowed_after_stop", default=False)


@contextmanager
def require_permit(permit: Callable[[], None]) -> Iterator[None]:
    """Call `permit` before every write in this context and its tasks; it raises to forbid the write.

    `permit` is called with the check of the fence, right before the bytes of each attempt are sent.
    """
    token = _needed.set(permit)
    try:
        yield
    finally:
        _needed.reset(token)


def require_permit_from_here(permit: Callable[[], None]) -> None:
    """Call `permit` before every later write in the current context."""
    _needed.set(permit)


def allow_after_stop(allowed: bool = True) -> None:
    """Set whether the current context may still write after `Transport.fence_work`; by default it may not."""
    _allowed_after_stop.set(allowed)


class Transport:
    """A sender of requests over a wire; error answers become exceptions.

    Attributes: `writes_in_flight`, the number of writes in progress, including those that wait for a retry.

    A transport retries, within the request's deadline and a limited number of attempts:

    - 429 and 503 with Retry-After, for every method: the server has not processed the request;
    - for GET also any other server error, and a connection that cannot be opened or breaks.

    A write whose connection breaks is not repeated, because the write may have had its effect: the caller
    reads the object again and decides.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        metrics: Metrics,
        rng: random.Random,
        user_agent: str,
        beside: Transport | None = None,
    ) -> None:
        """Create a transport over `wire`.

        Args:
            wire: sends the bytes; it is closed with the transport.
            metrics: receives counts and durations per request sent.
            rng: the source of jitter.
            user_agent: this program's name for the server.
            beside: another transport that shares only its fence with this one, so that requests on one do not
                wait for requests on the other. Fencing one of them fences both.
        """
        self._wire = wire
        self._fence: _Fence = _Fence() if beside is None else beside._fence  # noqa: SLF001 - the same class
        self._fence.wires.append(wire)
        self._meters = lru_cache(_REMEMBERED)(partial(_meters, metrics, wire.host))
        self._user_agent = user_agent
        self._read_delay = ExponentialDelay(base=0.2, cap=5.0, jitter=0.5, rng=rng)
        # Added to the server's delay: after a refusal that says "at once" there must be no tight loop, and
        # clients that were refused together should not return together.
        self._refusal_delay = ExponentialDelay(base=0.05, cap=1.0, jitter=1.0, rng=rng)
        self._headers = lru_cache(_REMEMBERED)(self._headers_for)
        self._deadlines = Deadlines()
        # The same request causes the same warning every time.
        self._warn = lru_cache(_REMEMBERED)(log_warnings)
        self.writes_in_flight = self._work_in_flight = 0
        # Not set while no connection can be opened.
        self._reached = asyncio.Event()
        self._reached.set()

    async def aclose(self) -> None:
        """Close all connections and timers; all requests must have ended."""
        self._deadlines.close()
        await self._wire.aclose()

    async def is_back(self, *, within: float) -> bool:
        """Wait until an unreachable server answers any request; return False after `within` seconds.

        If the server counts as reachable at the call, this waits for the whole time and returns False.
        """
        if self._reached.is_set():
            await asyncio.sleep(within)
            return False
        try:
            async with asyncio.timeout(within):
                return await self._reached.wait()
        except TimeoutError:
            return False

    def fence_at(self, when: float | None) -> None:
        """Send no write after the loop time `when`, until this is called again; None removes the limit.

        Use it for a right to write that has to be renewed. Each write checks the time, so a process that was
        suspended beyond that time sends no write when it continues. Writes in flight continue; `fence` drops
        them.
        """
        self._fence.at = math.inf if when is None else when

    def fence(self, reason: str) -> None:
        """Send no more writes for good, and drop those in flight.

        Every connection is reset, so that bytes in a buffer of this machine are not delivered. All writes,
        including those in progress, raise `Fenced` with this reason; reads continue.
        """
        if self._fence.reason is None:
            self._fence.reason = reason
        for wire in self._fence.wires:
            wire.abort()

    def fence_work(self, reason: str) -> None:
        """Fence all further writes for good, except those that `allow_after_stop` allows.

        Fenced writes in flight are dropped, with all connections of this transport. Call this before the
        lease is released: forgotten tasks may still run then. Fenced writes raise `Fenced` with this reason.
        """
        self._fence.work_ended = reason
        if self._work_in_flight:
            self._wire.abort()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        deadline: float | None = None,
        longest: int = LONGEST,
        name: str = "",
        head: Head | None = None,
    ) -> bytes:
        """Send a request and return the body of a successful response.

        Args:
            method: the HTTP method in capitals.
            path: absolute and percent-encoded, without a query.
            query: parameters, not yet encoded.
            body: the bytes to send, of type `content_type`.
            content_type: the type of `body`; not sent without a body.
            accept: the accepted types of the response.
            deadline: seconds for the request, retries included; None is `DEADLINE`.
            longest: maximum bytes of the response; callers pass `LONGEST_LIST` for lists.
            name: the created object's name for the reconcile record, because the path lacks it.
            head: is called with status and headers of a successful answer.

        Raises:
            ApiError: the server answered with an error.
            ProtocolError: the response is longer than `longest`; the request is not retried.
            TransportError: no complete response was received in time; a write may have had its effect.
            Fenced: writes are no longer allowed.
        """
        seconds = DEADLINE if deadline is None else deadline
        writes = method != "GET"
        works = writes and not _allowed_after_stop.get()
        headers = self._headers(accept, None if body is None else content_type)
        permit = self._permission() if writes else None
        request = WireRequest(method, _target(path, query), headers, body, permit=permit)
        sent, trace = _begin_record(request, path, name)
        self.writes_in_flight += writes
        self._work_in_flight += works
        failure: BaseException | None = None
        answer = b""
        limit = self._deadlines.start(seconds)
        try:
            answer = await self._send(request, limit.when, longest, sent, head)
        except BaseException as error:
            failure = _explained(error, limit, f"{method} {path}: no answer within {seconds:g} s")
            if failure is not error:
                raise failure from None
            raise
        finally:
            self._deadlines.stop(limit)
            self.writes_in_flight -= writes
            self._work_in_flight -= works
            if trace is not None:
                trace.ended(answer, failure)
        return answer

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = "application/json",
        idle_timeout: float,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a GET with a long-lived answer, and yield pieces of any size; nothing is retried.

        The answer's head has to arrive within `DEADLINE`. A connection without data for `idle_timeout`
        seconds counts as dead. For other arguments and errors see `request`.
        """
        request = WireRequest("GET", _target(path, query), self._headers(accept, None), stream=True)
        async with AsyncExitStack() as stack:
            async with self._opening(path, _OK):
                response = await stack.enter_async_context(self._wire.exchange(request))
                if response.status != _OK:
                    raise error_from(response.status, response.headers, await response.read())
            async with (
                aclosing(response.chunks()) as arriving,
                aclosing(self._unless_idle(arriving, path, idle_timeout)) as chunks,
            ):
                yield chunks

    @asynccontextmanager
    async def websocket(
        self,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        protocols: Sequence[str],
        longest: int = LONGEST_MESSAGE,
    ) -> AsyncIterator[WebSocket]:
        """Open a WebSocket, which requires the right to write until it is closed; nothing is retried.

        The server's answer has to arrive within `DEADLINE`. The fence closes the WebSocket.

        `protocols` are offered in order of preference; a message of the server may have `longest` bytes. A
        name may occur several times in `query`. Raises the errors of `request`, `Fenced` even while it is
        open, and `ProtocolError` if the server does not support WebSockets or any of the protocols.
        """
        permit = self._permission()
        permit()
        headers = {"User-Agent": self._user_agent}
        request = WireRequest("GET", _target(path, query), headers, permit=permit)
        sent, trace = _begin_record(request, path, verb="connect")
        works = not _allowed_after_stop.get()
        self._work_in_flight += works
        try:
            async with AsyncExitStack() as stack:
                async with self._opening(path, _UPGRADED, sent, trace):
                    opening = self._wire.websocket(request, protocols, longest=longest)
                    socket = await stack.enter_async_context(opening)
                yield socket
        except TransportError as error:
            if (reason := self._fence.dropped_for()) is not None:
                raise Fenced(reason) from error
            raise
        finally:
            self._work_in_flight -= works

    @asynccontextmanager
    async def _opening(
        self, path: str, success: int, sent: RequestRecord | None = None, trace: RequestTrace | None = None
    ) -> AsyncIterator[None]:
        """Limit the opening of a stream by the deadline; report its result to metrics, record and trace."""
        clock = asyncio.get_running_loop().time
        started, code = clock(), NO_ANSWER
        failure: BaseException | None = None
        limit = self._deadlines.start(DEADLINE)
        try:
            yield
            code = success
            self._reached.set()
        except BaseException as error:
            if isinstance(error, ApiError):
                code = error.status
                self._reached.set()
            if isinstance(error, Unreachable):
                self._reached.clear()
            failure = _explained(error, limit, f"GET {path}: no answer within {DEADLINE:g} s")
            if failure is not error:
                raise failure from None
            raise
        finally:
            self._deadlines.stop(limit)
            self._note("GET", code, clock() - started, sent)
            if trace is not None:
                trace.ended(b"", failure)

    def _headers_for(self, accept: str, content_type: str | None) -> dict[str, str]:
        """Return the headers of a request; the wire caches their encoding by the identity of the mapping."""
        headers = {"Accept": accept, "User-Agent": self._user_agent}
        return headers if content_type is None else {**headers, "Content-Type": content_type}

    def _permission(self) -> Callable[[], None]:
        """Return the check that a write from the current context must pass."""
        fence, is_work, needed = self._fence, not _allowed_after_stop.get(), _needed.get()
        clock = asyncio.get_running_loop().time

        def permit() -> None:
            if fence.reason is not None:
                raise Fenced(fence.reason)
            if clock() >= fence.at:
                raise Fenced("the right to write was not renewed in time")
            if is_work and fence.work_ended is not None:
                raise Fenced(fence.work_ended)
            if needed is not None:
                needed()

        return permit

    async def _send(
        self,
        request: WireRequest,
        give_up_at: float,
        longest: int,
        sent: RequestRecord | None,
        head: Head | None,
    ) -> bytes:
        clock, attempts = asyncio.get_running_loop().time, 0
        while True:
            try:
                if request.permit is not None:
                    request.permit()
                started, code = clock(), NO_ANSWER
                try:
                    code, headers, body = await self._wire.fetch(request, longest)
                    self._reached.set()
                except (ProtocolError, TransportError) as error:
                    if (failure := self._failure(request, error)) is not error:
                        raise failure from error
                    raise
                finally:
                    self._note(request.method, code, clock() - started, sent)
                if (warning := headers.get("Warning")) is not None:
                    self._warn(warning)
                if _OK <= code < _REDIRECT:
                    if head is not None:
                        head(code, headers)
                    return body
                raise error_from(code, headers, body)
            except (ApiError, TransportError) as error:
                delay = self._delay_before_retry(request.method, error, attempts)
                # A wait that exceeds the deadline would hide the real error.
                if delay is None or clock() + delay >= give_up_at:
                    raise
            attempts += 1
            await asyncio.sleep(delay)

    def _note(self, method: str, code: int, seconds: float, sent: RequestRecord | None) -> None:
        count, observe = self._meters(method, code)
        count()
        observe(seconds)
        if sent is not None:
            sent.code = code
            sent.attempts += 1
            sent.seconds += seconds

    def _failure(self, request: WireRequest, error: ProtocolError | TransportError) -> KubeError:
        """Return the error to raise for a failed attempt; it names the request, or the fence's reason."""
        if isinstance(error, ProtocolError):
            return ProtocolError(f"{request.method} {request.path.partition('?')[0]}: {error}")
        if isinstance(error, Unreachable):
            self._reached.clear()
        if request.method != "GET" and (reason := self._fence.dropped_for()) is not None:
            return Fenced(reason)  # the fence broke this connection
        return error

    def _delay_before_retry(
        self, method: str, error: ApiError | TransportError, attempts: int
    ) -> float | None:
        """Return the seconds to wait before another attempt; None for no further attempt."""
        if isinstance(error, TooManyRequests | ServiceUnavailable) and error.retry_after is not None:
            return (
                error.retry_after + self._refusal_delay(attempts) if attempts + 1 < REFUSED_ATTEMPTS else None
            )
        if method != "GET" or attempts + 1 >= READ_ATTEMPTS:
            return None
        if isinstance(error, TransportError | ServerError):
            return self._read_delay(attempts)
        return None

    async def _unless_idle(
        self, chunks: AsyncIterator[bytes], path: str, idle_timeout: float
    ) -> AsyncGenerator[bytes, None]:
        """Yield the chunks; raise `DeadlineExceeded` if none arrives for `idle_timeout` seconds."""
        while True:
            limit = self._deadlines.start(idle_timeout)
            try:
                chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except asyncio.CancelledError:
                if limit.missed():
                    raise DeadlineExceeded(f"GET {path}: nothing came for {idle_timeout:g} s") from None
                raise
            finally:
                self._deadlines.stop(limit)
            yield chunk


@dataclass
class _Fence:
    """The state of transports that are fenced together."""

    reason: str | None = None
    work_ended: str | None = None
    at: float = math.inf
    wires: list[Wire] = field(default_factory=list)

    def dropped_for(self) -> str | None:
        """Return the reason why writes of this context are dropped; None if they are not."""
        return self.reason or (None if _allowed_after_stop.get() else self.work_ended)


def _explained(error: BaseException, limit: Deadline, missed: str) -> BaseException:
    """Return the final error of a request: `DeadlineExceeded` for a missed deadline, else `error`."""
    if isinstance(error, Forbidden):
        error.asked_at = line_that_asks()
    if isinstance(error, asyncio.CancelledError) and limit.missed():
        return DeadlineExceeded(missed)
    return error


def _meters(metrics: Metrics, host: str, method: str, code: int) -> tuple[Callable[[], None], Observe]:
    """Return the counter and the histogram for requests to a host with that status or `NO_ANSWER`."""
    label = "<error>" if code == NO_ANSWER else str(code)
    counted = metrics.rest_requests.labels(code=label, method=method, host=host)
    return counting(counted), observing(metrics.rest_latency.labels(verb=method, host=host))


def log_warnings(header: str) -> None:
    """Log each text in the header `Warning` of an answer."""
    for text in _warning.findall(header):
        _log.warning("the API server sent a warning", warning=re.sub(r"\\(.)", r"\1", text))


def _begin_record(
    request: WireRequest, path: str, name: str = "", *, verb: str = ""
) -> tuple[RequestRecord | None, RequestTrace | None]:
    """Record the start of a request in the reconcile's record and trace, if there are any."""
    run = current_record()
    if run is None:
        return None, None
    if not verb:
        verb = "apply" if request.headers.get("Content-Type") == _APPLY else request.method.lower()
        if "dryRun=" in request.path or (request.method == "DELETE" and b'"dryRun"' in (request.body or b"")):
            verb += ", dry run"
    sent = run.begin_request(verb, path, name)
    if (traced := current_trace.get()) is None:
        return sent, None
    trace = traced.request(sent)
    request.headers = {**request.headers, **trace.headers}
    return sent, trace


def _target(path: str, query: Mapping[str, str] | Sequence[tuple[str, str]] | None) -> str:
    return f"{path}?{urlencode(query, quote_via=quote)}" if query else path
