"""A wire (sender of HTTP requests) for unit tests; the test scripts responses and connection faults.

The wire also runs in virtual time (`@pytest.mark.virtual_time`), and waits only where the script says so.

    wire = ScriptedWire()
    transport = Transport(wire, metrics=Metrics(), rng=random.Random(1), user_agent="test")

A route is a method, a path without query, and steps. Each request uses the next step; the last step is
used again and again. A path that ends in `*` matches all paths with that beginning; the longest match is
used. A request without a route gets a 404 response.

    wire.on("GET", "/api/v1/namespaces/default", Reply.json({"kind": "Namespace"}))
    wire.on("PUT", path, Reply.status(409, "Conflict"), Reply.json({...}))      # first 409, then 200
    wire.on("POST", path, Reply.status(429, "TooManyRequests", retry_after=2))

A step can be a function, or a coroutine function, that gets the request and returns the step:

    wire.on("POST", path, lambda request: Reply.json(server.create(request.body), status=201))

Faults are steps too:

    Unreached()            no connection can be made
    LostBefore()           the connection breaks before the server receives the request
    LostAfter(step)        the server does `step`, but the response is lost
    Stall()                no response comes, so the caller's deadline ends the request
    Delayed(2.0, step)     `step`, two seconds later
    Cut(b"half an ans")    the connection breaks after these bytes of the response

A `Stream` is the response to one watch, and the test sends its events:

    stream = Stream()
    wire.on("GET", "/api/v1/pods", stream)
    stream.event("ADDED", {"kind": "Pod", ...})    # one line; `feed(b"...")` sends any bytes
    stream.end()                                   # the server closes the stream without an error
    stream.cut()                                   # the connection breaks
    await stream.opened.wait()                     # until the code under test has connected
    stream.closed                                  # whether the code under test has closed the stream

`wire.requests` has all requests in order, and `wire.sent("PUT", path)` returns some of them. `wire.aborts`
counts the calls of `abort()`, which breaks every exchange in progress.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias, TypeVar
from urllib.parse import parse_qs, urlsplit

import orjson
from multidict import CIMultiDict

from manager.kube.errors import ConnectionLost, ProtocolError, Unreachable
from manager.kube.wire import LONGEST, Wire, WireRequest


@dataclass(frozen=True)
class Sent:
    """A request that the code under test has sent, whether or not the server receives it."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes | None
    at: float
    """Loop time at which the request was sent."""

    @classmethod
    def now(cls, request: WireRequest) -> Self:
        pieces = urlsplit(request.path)
        query = {name: values[-1] for name, values in parse_qs(pieces.query, keep_blank_values=True).items()}
        at = asyncio.get_running_loop().time()
        return cls(request.method, pieces.path, query, request.headers, request.body, at)

    def json(self) -> Any:
        return orjson.loads(self.body or b"null")


@dataclass(frozen=True)
class Reply:
    """Step: a complete response."""

    code: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
        return cls(status, orjson.dumps(value), {"Content-Type": "application/json", **(headers or {})})

    @classmethod
    def status(
        cls,
        code: int,
        reason: str = "",
        message: str = "",
        *,
        details: Mapping[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> Reply:
        """Return an error response with a Status object, as from an API server."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        value: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
        value |= {"reason": reason, "message": message or reason or f"status {code}"}
        if details is not None:
            value["details"] = dict(details)
        return cls.json(value, status=code, headers=headers)


@dataclass(frozen=True)
class Unreached:
    """Step: no connection can be made."""


@dataclass(frozen=True)
class LostBefore:
    """Step: the connection breaks before the server has received the request."""


@dataclass(frozen=True)
class LostAfter:
    """Step: the server does `step`, and the connection breaks before the response arrives."""

    step: Step = field(default_factory=Reply)


@dataclass(frozen=True)
class Stall:
    """Step: the server never answers."""


@dataclass(frozen=True)
class Delayed:
    """Step: `step` happens after some seconds of virtual time."""

    seconds: float
    step: Step


@dataclass(frozen=True)
class Cut:
    """Step: the connection breaks after `body`, a part of the response."""

    body: bytes = b""
    code: int = 200


class Stream:
    """Step: a response whose content the test sends while the caller reads it."""

    def __init__(self, *, code: int = 200) -> None:
        self.code = code
        self.opened = asyncio.Event()
        self.closed = False
        self._pieces: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

    def feed(self, piece: bytes) -> None:
        """Send these bytes, which may end within a line."""
        self._pieces.put_nowait(piece)

    def event(self, kind: str, value: Any) -> None:
        """Send one watch event; `kind` is its type, such as "ADDED"."""
        self.feed(orjson.dumps({"type": kind, "object": value}) + b"\n")

    def end(self) -> None:
        """Close the stream without an error."""
        self._pieces.put_nowait(None)

    def cut(self) -> None:
        """Break the connection."""
        self._pieces.put_nowait(ConnectionLost("cut by the script"))

    async def next_piece(self) -> bytes | None:
        """Return the next bytes of the stream; None at its end."""
        piece = await self._pieces.get()
        if isinstance(piece, Exception):
            raise piece
        return piece

    async def aclose(self) -> None:
        """Mark the response as closed by its reader."""
        self.closed = True


Step: TypeAlias = (
    "Reply | Unreached | LostBefore | LostAfter | Stall | Delayed | Cut | Stream | Callable[[Sent], Any]"
)
"""One of the classes above, or a function of the request that returns a step or an awaitable of one."""


class ScriptedWire(Wire):
    """`manager.kube.wire.Wire` with scripted responses; the module docstring describes it."""

    host = "scripted.test:443"

    def __init__(self) -> None:
        self.requests: list[Sent] = []
        self.aborts = 0
        self.closed = False
        self._routes: dict[tuple[str, str], deque[Step]] = {}
        self._in_progress: set[_Line] = set()

    def on(self, method: str, path: str, *steps: Step) -> None:
        """Route requests to these steps in their order; replace an earlier route."""
        self._routes[method, path] = deque(steps)

    def then(self, method: str, path: str, *steps: Step) -> None:
        """Append steps to a route."""
        self._routes.setdefault((method, path), deque()).extend(steps)

    def sent(self, method: str, path: str = "*") -> list[Sent]:
        """Return the requests sent so far with this method and path (which may end in `*`)."""
        return [each for each in self.requests if each.method == method and _fits(path, each.path)]

    @property
    def in_progress(self) -> int:
        """Return the number of exchanges that callers have not yet closed."""
        return len(self._in_progress)

    @asynccontextmanager
    async def exchange(self, request: WireRequest) -> AsyncIterator[ScriptedResponse]:
        sent = Sent.now(request)
        if request.permit is not None:
            request.permit()
        self.requests.append(sent)
        line = _Line()
        self._in_progress.add(line)
        try:
            response = await line.unless_broken(self._in_turns(self._next_step(sent), sent))
            response.line = line
            try:
                yield response
            finally:
                if response.stream is not None:
                    await response.stream.aclose()
        finally:
            self._in_progress.discard(line)

    def abort(self) -> None:
        self.aborts += 1
        for line in self._in_progress:
            line.break_off()

    async def aclose(self) -> None:
        self.closed = True

    def _next_step(self, sent: Sent) -> Step:
        fitting = [
            (len(path), steps)
            for (method, path), steps in self._routes.items()
            if method == sent.method and steps and _fits(path, sent.path)
        ]
        if not fitting:
            return Reply.status(404, "NotFound", f"nothing is scripted for {sent.method} {sent.path}")
        _, steps = max(fitting, key=lambda each: each[0])
        return steps.popleft() if len(steps) > 1 else steps[0]

    async def _in_turns(self, step: Step, sent: Sent) -> ScriptedResponse:
        """Let other tasks run, do the step, and let other tasks run again before the response arrives."""
        await asyncio.sleep(0)
        response = await self._perform(step, sent)
        await asyncio.sleep(0)
        return response

    async def _perform(self, step: Step, sent: Sent) -> ScriptedResponse:
        match step:
            case Reply(code, body, headers):
                return ScriptedResponse(code, headers, body)
            case Cut(body, code):
                return ScriptedResponse(code, {}, body, cut=True)
            case Stream():
                step.opened.set()
                return ScriptedResponse(step.code, {}, stream=step)
            case Unreached():
                raise Unreachable("cannot connect (scripted)")
            case LostBefore():
                raise ConnectionLost("connection lost before the server saw the request (scripted)")
            case LostAfter(inner):
                await self._perform(inner, sent)
                raise ConnectionLost("connection lost before the answer arrived (scripted)")
            case Stall():
                await asyncio.Event().wait()
                raise AssertionError("a stalled exchange continues")
            case Delayed(seconds, inner):
                await asyncio.sleep(seconds)
                return await self._perform(inner, sent)
            case _:
                answer = step(sent)
                return await self._perform(await answer if inspect.isawaitable(answer) else answer, sent)


class ScriptedResponse:
    """`manager.kube.wire.WireResponse` with a scripted body."""

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        cut: bool = False,
        stream: Stream | None = None,
    ) -> None:
        self.status = status
        self.headers: CIMultiDict[str] = CIMultiDict(headers)
        self.stream = stream
        self.line = _Line()
        self._body = body
        self._cut = cut

    async def read(self, limit: int = LONGEST) -> bytes:
        body = b"".join([chunk async for chunk in self.chunks()])
        if len(body) > limit:
            raise ProtocolError(f"the answer is longer than {limit} bytes")
        return body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        if self.stream is not None:
            while (piece := await self.line.unless_broken(self.stream.next_piece())) is not None:
                yield piece
        elif self.line.broken:
            raise ConnectionLost("connections were aborted")
        elif self._body:
            yield self._body
        if self._cut:
            raise ConnectionLost("the answer broke off (scripted)")


_Result = TypeVar("_Result")


class _Line:
    """Connection of one exchange; `abort` can break the connection."""

    def __init__(self) -> None:
        self.broken = False
        self._waiting: set[asyncio.Task[Any]] = set()

    def break_off(self) -> None:
        """Break the connection: current and later reads raise `ConnectionLost`."""
        self.broken = True
        for task in self._waiting:
            asyncio.get_running_loop().call_soon(self._notify, task)

    async def unless_broken(self, work: Awaitable[_Result]) -> _Result:
        """Return the result of `work`, or raise `ConnectionLost` as soon as the connection breaks.

        The calling task runs `work` itself, because a second task would slow most tests.
        """
        task = asyncio.current_task()
        assert task is not None
        others = task.cancelling()
        self._waiting.add(task)
        if self.broken:
            asyncio.get_running_loop().call_soon(self._notify, task)
        try:
            answer = await work
        except asyncio.CancelledError:
            if task in self._waiting or task.cancelling() - 1 > others:
                raise
        finally:
            if task in self._waiting:
                self._waiting.discard(task)
            else:
                task.uncancel()
        if self.broken:
            raise ConnectionLost("connections were aborted")
        return answer

    def _notify(self, task: asyncio.Task[Any]) -> None:
        """Cancel a waiting task; callers use `call_soon`, so that the current callback ends first."""
        if task in self._waiting:
            self._waiting.discard(task)
            task.cancel()


def _fits(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern
