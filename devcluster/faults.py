"""Fault injection: definitions of faults, their effects, and the HTTP endpoint that sets them."""

from __future__ import annotations

import asyncio
import enum
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from devcluster.errors import StatusError, bad_request, unauthorized
from devcluster.http_call import ApiRequest, ApiResponse, ConnectionCut, Handler, User
from devcluster.storage import Store

_TRUE = frozenset({"1", "true"})


class Action(enum.Enum):
    """Effect of a fault on a request."""

    DELAY = "delay"
    """Delay the request by `seconds`; only then does it have an effect."""
    FAIL = "fail"
    """Answer with `code`; the request has no effect."""
    CUT_REQUEST = "cut-request"
    """Break the connection before the request has an effect."""
    CUT_ANSWER = "cut-answer"
    """Break the connection after the request has had its effect, before the response."""
    CUT_WATCH = "cut-watch"
    """Break the watch stream in the middle of the line after `lines` complete ones."""
    STALL_WATCH = "stall-watch"
    """Send no more after `lines` lines, but keep the watch stream open."""


class Match(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filter for requests: all given fields must match; `path` and `user_agent` are regular expressions."""

    method: str | None = None
    path: str | None = None
    user_agent: str | None = msgspec.field(default=None, name="userAgent")
    watch: bool | None = None

    def __post_init__(self) -> None:
        for name, pattern in (("path", self.path), ("userAgent", self.user_agent)):
            if pattern is not None:
                try:
                    re.compile(pattern)
                except re.error as error:
                    raise ValueError(f"{name} is not a regular expression: {error}") from error

    def __call__(self, request: ApiRequest) -> bool:
        return (
            self.method in {None, request.method}
            and (self.path is None or re.search(self.path, request.path) is not None)
            and (
                self.user_agent is None
                or re.search(self.user_agent, request.headers.get("user-agent", "")) is not None
            )
            and (self.watch is None or self.watch is (request.option("watch").lower() in _TRUE))
        )


class Fault(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Fault that affects the first `times` matching requests, or all of them if `times` is None."""

    do: Action
    match: Match = Match()
    times: int | None = None
    """The number of occurrences; None for no limit."""
    seconds: float = 0.0
    """The delay in seconds; for any other action, the seconds before it."""
    code: int = 503
    """The status code of `fail`."""
    retry_after: int | None = msgspec.field(default=None, name="retryAfter")
    """The `Retry-After` of `fail`, in seconds."""
    lines: int = 0
    """The number of lines before a stream is cut or stalled."""
    hits: int = 0
    """The number of occurrences so far."""

    def __post_init__(self) -> None:
        if self.times is not None and self.times < 1:
            raise ValueError("times must be 1 or more")
        if self.seconds < 0:
            raise ValueError("seconds must not be negative")
        if not 400 <= self.code <= 599:  # noqa: PLR2004 -- the codes of failures
            raise ValueError("code must be between 400 and 599")
        if self.lines < 0:
            raise ValueError("lines must not be negative")

    def applies_to(self, request: ApiRequest) -> bool:
        is_used_up = self.times is not None and self.hits >= self.times
        streams_only = self.do in {Action.CUT_WATCH, Action.STALL_WATCH}
        if is_used_up or (streams_only and request.option("watch").lower() not in _TRUE):
            return False
        return self.match(request)

    def to_json(self) -> dict[str, Any]:
        """Return the fault in the JSON form of the HTTP endpoint."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return shown


_REASONS = {
    401: ("Unauthorized", "Unauthorized"),
    403: ("Forbidden", "forbidden by an injected fault"),
    409: ("Conflict", "conflict by an injected fault"),
    410: ("Expired", "too old resource version, by an injected fault"),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    500: ("InternalError", "Internal error occurred: an injected fault"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "the server was unable to return a response in the time allotted"),
}


async def _happen(fault: Fault, request: ApiRequest, handler: Handler) -> ApiResponse:
    if fault.seconds:
        await asyncio.sleep(fault.seconds)
    match fault.do:
        case Action.FAIL:
            reason, message = _REASONS.get(fault.code, ("", f"an injected fault answered {fault.code}"))
            return ApiResponse.failure(
                StatusError(fault.code, reason, message, retry_after=fault.retry_after)
            )
        case Action.CUT_REQUEST:
            raise ConnectionCut
        case Action.DELAY:
            return await handler(request)
    response = await handler(request)
    if fault.do is Action.CUT_ANSWER:
        if response.stream is not None:
            await _close(response.stream)
        raise ConnectionCut
    if response.stream is not None:
        response.stream = _disturbed(response.stream, fault.lines, stall=fault.do is Action.STALL_WATCH)
    return response


async def _disturbed(stream: AsyncIterator[bytes], lines: int, *, stall: bool) -> AsyncIterator[bytes]:
    """Yield the first `lines` lines of a stream, then stall, or cut the connection within the next line."""
    left = lines
    try:
        if stall and left == 0:
            await asyncio.Event().wait()
        async for chunk in stream:
            whole = chunk.splitlines(keepends=True)
            if len(whole) <= left - (1 if stall else 0):
                left -= len(whole)
                yield chunk
                continue
            yield b"".join(whole[:left])
            if stall:
                await asyncio.Event().wait()
            yield whole[left][: len(whole[left]) // 2]
            raise ConnectionCut
    finally:
        await _close(stream)


async def _close(stream: AsyncIterator[bytes]) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


PREFIX = "/devcluster/"
_NUMBER = re.compile(r"[0-9]{1,9}\Z")
_ADMINISTRATORS = "system:masters"


class FaultControl:
    """Control of injected faults: `cluster.faults` in Python, or `/devcluster/...` over HTTP.

    Only members of the group system:masters may use the endpoint.
    """

    def __init__(
        self, store: Store, handler: Handler, authenticate: Callable[[ApiRequest], User | None]
    ) -> None:
        """Set up the control; `authenticate` returns the user of a request, or raises StatusError."""
        self._store = store
        self._handler = handler
        self._authenticate = authenticate
        self._faults: dict[int, Fault] = {}
        self._last = 0

    def add(self, do: Action | str, match: Match | None = None, **options: Any) -> int:
        """Inject a fault and return its number; `options` are other fields of `Fault`.

        If several faults apply to a request, only the first one takes effect.

        Raises:
            ValueError: `do` or the value of a field is invalid.
        """
        return self._put(Fault(do=Action(do), match=match or Match(), **options))

    def remove(self, number: int) -> Fault | None:
        """Remove a fault and return it, with its number of hits; return None for an unknown number."""
        return self._faults.pop(number, None)

    def clear(self) -> None:
        self._faults.clear()

    def expire_history(self) -> None:
        """Drop the history of changes: watches and lists of old versions get 410."""
        self._store.expire_history()

    async def handle(self, request: ApiRequest) -> ApiResponse:
        """Answer requests to the fault endpoint; pass others to the handler, with the fault that applies."""
        if request.path.startswith(PREFIX):
            try:
                return self._answer(request)
            except StatusError as error:
                return ApiResponse.failure(error)
        for fault in self._faults.values():
            if fault.applies_to(request):
                fault.hits += 1
                return await _happen(fault, request, self._handler)
        return await self._handler(request)

    def _put(self, fault: Fault) -> int:
        self._last += 1
        self._faults[self._last] = fault
        return self._last

    def _answer(self, request: ApiRequest) -> ApiResponse:
        if (user := self._authenticate(request)) is None:
            raise unauthorized()
        if _ADMINISTRATORS not in user.groups:
            raise StatusError(403, "Forbidden", "only members of system:masters may inject faults")
        path = request.path.removeprefix(PREFIX).rstrip("/")
        match request.method, path:
            case "GET", "faults":
                shown = [{"number": number, **fault.to_json()} for number, fault in self._faults.items()]
                return ApiResponse.json({"faults": shown})
            case "POST", "faults":
                return ApiResponse.json({"number": self._put(_fault(request.body))}, status=201)
            case "DELETE", "faults":
                self.clear()
                return ApiResponse.json({})
            case "DELETE", _ if path.startswith("faults/"):
                number = path.removeprefix("faults/")
                fault = self.remove(int(number)) if _NUMBER.match(number) else None
                if fault is None:
                    raise StatusError(404, "NotFound", f"fault {number} does not exist")
                return ApiResponse.json(fault.to_json())
            case "POST", "history/expire":
                self.expire_history()
                return ApiResponse.json({})
        raise StatusError(404, "NotFound", f"{request.method} {request.path} does not exist")


def _fault(body: bytes) -> Fault:
    try:
        return msgspec.json.decode(body, type=Fault)
    except (msgspec.DecodeError, ValueError) as error:
        raise bad_request(f"this is not a fault: {error}") from error
