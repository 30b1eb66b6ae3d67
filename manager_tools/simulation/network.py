"""A simulated network between one process and the API server, with faults of networks and servers.

Requests and responses take time, get lost, and may arrive after their sender has given up. All faults are
drawn from one source of randomness; the `Weather` defines how frequent they are.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote

import orjson

from devcluster.api.reading import future_version
from devcluster.errors import StatusError
from devcluster.http_call import ApiRequest, ApiResponse, ConnectionCut
from manager.kube.credentials import Credentials
from manager.kube.errors import ConnectionLost, ProtocolError, Unreachable
from manager.kube.wire import LONGEST, Wire, WireRequest
from manager.util.author_code import line_that_asks
from manager_tools.simulation.scene import Scene, Sent, Weather, sender

_Arrived = deque[tuple[float, bytes] | None]
"""Parts of a stream, with the time at which each arrives; None comes after the last part."""


_TO_THE_SECOND = 0.5
_AT_ONCE = 1e-6
"""The rounding error of a timer in seconds."""
_LOOKS_EVERY = 5.0
"""Seconds between checks whether a delayed stream has caught up."""
_NEVER_SENT = 0.2
"""The share of requests that never arrive if the sender gives up in the meantime."""

_SPLIT = 0.05
"""The share of a stream's parts that arrive in two pieces."""

_REASONS = {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}


class Network(Wire):
    """A `manager.kube.wire.Wire` with faults."""

    host = "simulated"

    def __init__(
        self,
        scene: Scene,
        process: str,
        credentials: Credentials,
        *,
        rng: random.Random,
        weather: Weather,
        crash: Callable[[Sent, str], bool],
        counted: Callable[[], None],
    ) -> None:
        """Connect one process to the control plane of a scene.

        `crash` is called before and after each write takes effect, and returns whether the process dies at
        that time. `counted` is called for each request.
        """
        self.weather = weather
        self.writes = 0
        self._scene = scene
        self._plane = scene.plane
        self._process = process
        self._credentials = credentials
        self._rng = rng
        self._crash = crash
        self._counted = counted
        self._open: dict[_Exchange, None] = {}
        self._dead = False
        # Tasks in this context belong to the server: they continue when the client is frozen or dead.
        self._context = scene.context

    @asynccontextmanager
    async def exchange(self, request: WireRequest) -> AsyncIterator[_Exchange]:
        """Send a request as `Wire.exchange` does; repeat it with new credentials if they are rejected."""
        header = (await self._credentials.current()).header
        exchange = _Exchange(self, request, header)
        try:
            await self._send(exchange)
            if exchange.status == HTTPStatus.UNAUTHORIZED:
                renewed = (await self._credentials.current(rejected=header)).header
                if renewed != header:
                    self._leave(exchange)
                    exchange = _Exchange(self, request, renewed)
                    await self._send(exchange)
            if exchange.forbidden:
                self._scene.forbidden(self._process, exchange.forbidden, line_that_asks())
            yield exchange
        finally:
            self._leave(exchange)

    async def _send(self, exchange: _Exchange) -> None:
        self._counted()
        self._open[exchange] = None
        if self._dead:
            await exchange.answered
        if self.weather.refusing or not self._plane.is_up:
            await asyncio.sleep(self._delay())
            raise Unreachable("connection refused (simulated)")
        request, by_clock = exchange.request, self._scene.clock_use.causes_write()
        sent = Sent(self._process, request.method, request.path, by_clock=by_clock)
        if request.permit is not None:
            request.permit()
        exchange.carrying = asyncio.get_running_loop().create_task(
            self._carry(exchange, sent), context=self._context.copy()
        )
        await exchange.answered

    def _leave(self, exchange: _Exchange) -> None:
        self._open.pop(exchange, None)
        exchange.leave(self._rng)

    @property
    def requests(self) -> list[str]:
        """Return the paths of the requests that are in progress."""
        return [exchange.request.path for exchange in self._open]

    def abort(self, why: str = "the connection was aborted") -> None:
        """Break all requests of the process, as `Wire.abort` does."""
        for exchange in list(self._open):
            exchange.fail(why)

    async def aclose(self) -> None:
        """Close the connection, as `Wire.aclose` does."""
        self.abort()

    def unplug(self) -> None:
        """Disconnect a process that has died; requests that it has already sent may still take effect."""
        self._dead = True

    def _is_silent(self) -> bool:
        return self.weather.silent

    def _note(self, what: str) -> None:
        self._scene.note(self._process, what)

    async def _carry(self, exchange: _Exchange, sent: Sent) -> None:
        request, chance = exchange.request, self._rng.random
        writes = request.method != "GET"
        sender.set(sent)
        if self._is_silent():
            return
        await asyncio.sleep(self._delay())
        if chance() < self.weather.loss:
            exchange.fail("connection lost on the way (simulated)")
            return
        if writes:
            self.writes += 1
            sent.number = self.writes
            if self._crash(sent, "before"):
                return
        exchange.arrived = True
        cluster = self._plane.cluster
        answer = await self._served(exchange)
        if not self._plane.is_up or self._plane.cluster is not cluster:
            exchange.fail("connection lost: the cluster was killed (simulated)")
            return
        if writes:
            self._note(f"{request.method} {request.path} -> {answer.status}{_reason(answer)}")
            if self._crash(sent, "after"):
                return
        if self._is_silent():
            return
        if not request.stream and chance() < self.weather.loss:
            exchange.fail("connection lost on the way back (simulated)")
            return
        asyncio.get_running_loop().call_later(self._delay(), exchange.answer, answer)

    async def _served(self, exchange: _Exchange) -> ApiResponse:
        chance, request = self._rng.random, exchange.request
        if chance() < self.weather.refusals:
            answer = self._refusal()
        else:
            if request.method != "GET" and chance() < self.weather.twice:
                first = await self._ask(exchange)
                self._note(f"{request.method} {request.path} -> {first.status}, and arrives again")
            answer = await self._ask(exchange)
            if answer.status == HTTPStatus.FORBIDDEN and not self._scene.rights_taken:
                exchange.forbidden = orjson.loads(answer.body)["message"]
        if self.weather.slow:
            # The write has already taken effect. A delay before it could move it to the time of another
            # leader.
            await asyncio.sleep(self._rng.uniform(0.0, self.weather.slow))
        return answer

    async def _ask(self, exchange: _Exchange) -> ApiResponse:
        request = exchange.request
        path, _, query = request.path.partition("#")[0].partition("?")
        asked = parse_qs(query, keep_blank_values=True) if query else {}
        headers = {name.lower(): value for name, value in request.headers.items()}
        headers["authorization"] = exchange.header or ""
        if self.weather.stale and request.method == "GET":
            if "sendInitialEvents" in asked:
                return _error(422, "Invalid", "sendInitialEvents is forbidden for watch (simulated)")
            version = self._past(self.weather.stale)
            if "watch" not in asked and "continue" not in asked and version is not None:
                asked |= _exactly(version)
        sent = ApiRequest(
            method=request.method, path=unquote(path), query=asked, headers=headers, body=request.body or b""
        )
        try:
            if self.weather.behind and request.method == "GET" and self._rng.random() < _TO_THE_SECOND:
                return await self._ask_second(exchange, sent)
            return await self._plane.cluster.handle(sent)
        except StatusError as refusal:
            return ApiResponse.failure(refusal)

    async def _ask_second(self, exchange: _Exchange, request: ApiRequest) -> ApiResponse:
        """Answer from a second API server with stale lists and watches; gets of one object are current."""
        handle, asked = self._plane.cluster.handle, dict(request.query)
        version = self._past(self.weather.behind)
        exchange.behind = "watch" in asked
        streamed = "sendInitialEvents" in asked
        if version is None or "continue" in asked or (exchange.behind and not streamed):
            return await handle(request)
        wanted = int(asked.pop("resourceVersion", ["0"])[0])
        if wanted > version:
            raise future_version(wanted, version)
        for name in ("watch", "sendInitialEvents", "resourceVersionMatch", "timeoutSeconds", "limit"):
            asked.pop(name, None)
        accept = request.headers.get("accept", "").replace("Metadata;", "MetadataList;")
        headers = {**request.headers, "accept": accept}
        listed = await handle(replace(request, query={**asked, **_exactly(version)}, headers=headers))
        if listed.status != HTTPStatus.OK or not listed.body.startswith(b'{"kind":"'):
            return listed
        self._note(f"{request.path} is read as of version {version}, from a server behind")
        if not streamed:
            return listed
        exchange.first = _initial_events(orjson.loads(listed.body), version)
        followed = {**request.query, "resourceVersion": [str(version)]}
        for name in ("sendInitialEvents", "resourceVersionMatch"):
            followed.pop(name, None)
        return await handle(replace(request, query=followed))

    def _past(self, seconds: float) -> int | None:
        """Return the resource version `seconds` ago, or the oldest that the store has; None if unknown."""
        then = self._scene.now - seconds
        found = None
        for when, version in self._scene.versions:
            if when > then:
                break
            found = version
        return None if found is None else max(found, self._plane.cluster.store.oldest)

    def _refusal(self) -> ApiResponse:
        code = self._rng.choice((429, 500, 503))
        answer = _error(code, _REASONS[code], "simulated")
        if code != 500:  # noqa: PLR2004 - the one without
            answer.headers["Retry-After"] = "1"
        return answer

    def _delay(self) -> float:
        return self._rng.uniform(0.0, self.weather.delay)

    async def pieces(self, stream: AsyncIterator[bytes], exchange: _Exchange) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of a stream in order, each delayed by the current lag."""
        arrived: _Arrived = deque()
        pumping = asyncio.get_running_loop().create_task(
            self._pump(stream, arrived, exchange), context=self._context.copy()
        )
        try:
            if exchange.first:
                yield exchange.first
            while (piece := await self._next(arrived, exchange)) is not None:
                torn = self._rng.random() < self.weather.torn
                if len(piece) > 1 and (torn or self._rng.random() < _SPLIT):
                    middle = self._rng.randrange(1, len(piece))
                    yield piece[:middle]
                    if torn:
                        self._note("a watch breaks off within a line")
                        exchange.fail("connection lost within a line (simulated)")
                    await exchange.wait(0.0)
                    piece = piece[middle:]
                if piece:
                    yield piece
        finally:
            pumping.cancel()
            await asyncio.wait([pumping])
            if hasattr(stream, "aclose"):
                await stream.aclose()

    async def _pump(self, stream: AsyncIterator[bytes], arrived: _Arrived, exchange: _Exchange) -> None:
        loop = asyncio.get_running_loop()
        try:
            async for piece in stream:
                delay = self._delay()
                arrived.append((self._scene.now + delay, piece))
                loop.call_later(delay, exchange.wake)
        except ConnectionCut:
            pass
        finally:
            arrived.append(None)
            exchange.wake()

    async def _next(self, arrived: _Arrived, exchange: _Exchange) -> bytes | None:
        while not arrived:
            await exchange.wait()
        exchange.check()
        came = arrived.popleft()
        if came is None:
            return None
        when, piece = came
        while (late := when + self._lag(exchange) - self._scene.now) > _AT_ONCE:
            await exchange.wait(min(late, _LOOKS_EVERY))
        while self.weather.silent:
            await exchange.wait(1.0)
        if self.weather.skips:
            piece = await self._skip(piece, arrived, exchange)
        if self.weather.no_bookmarks and b'"BOOKMARK"' in piece:
            piece = _without_bookmarks(piece)
        return piece

    def _lag(self, exchange: _Exchange) -> float:
        return self.weather.lag + (self.weather.behind if exchange.behind else 0.0)

    async def _skip(self, piece: bytes, arrived: _Arrived, exchange: _Exchange) -> bytes:
        """Wait until the stream continues; return only the latest arrived event of each object."""
        while self.weather.skips:
            await exchange.wait(1.0)
        pieces = [piece]
        while arrived and arrived[0] is not None:
            pieces.append(arrived[0][1])
            arrived.popleft()
        self._note(f"a watch skips to the last of {len(pieces)} states")
        return _latest(b"".join(pieces))


def _exactly(version: int) -> dict[str, list[str]]:
    return {"resourceVersion": [str(version)], "resourceVersionMatch": ["Exact"]}


def _error(code: int, reason: str, message: str) -> ApiResponse:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return ApiResponse.json({**status, "reason": reason, "message": message}, status=code)


def _reason(answer: ApiResponse) -> str:
    if answer.status < 400:  # noqa: PLR2004 - an error
        return ""
    try:
        status = orjson.loads(answer.body)
        return f" {status['reason']}: {status['message']}"
    except (orjson.JSONDecodeError, LookupError, TypeError):
        return ""


def _initial_events(listed: dict[str, Any], version: int) -> bytes:
    kind = {"kind": listed["kind"].removesuffix("List"), "apiVersion": listed["apiVersion"]}
    events = [{"type": "ADDED", "object": {**kind, **each}} for each in listed["items"] or ()]
    metadata = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
    events.append({"type": "BOOKMARK", "object": {**kind, "metadata": metadata}})
    return b"".join(orjson.dumps(each) + b"\n" for each in events)


def _latest(piece: bytes) -> bytes:
    """Return only the last event of each object, and the last bookmark."""
    if b"initial-events-end" in piece:
        return piece
    last: dict[tuple[str, str], bytes] = {}
    for line in piece.splitlines(keepends=True):
        metadata = orjson.loads(line)["object"].get("metadata") or {}
        place = metadata.get("namespace", ""), metadata.get("name", "")
        last.pop(place, None)
        last[place] = line
    return b"".join(last.values())


def _without_bookmarks(piece: bytes) -> bytes:
    kept = [
        line
        for line in piece.splitlines(keepends=True)
        if b'"BOOKMARK"' not in line or b"initial-events-end" in line
    ]
    return b"".join(kept)


class _Exchange:
    """A request and its response in transit; it implements `manager.kube.wire.WireResponse`."""

    status: int
    headers: dict[str, str]

    def __init__(self, network: Network, request: WireRequest, header: str | None) -> None:
        self.request, self.header = request, header
        self._loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[ApiResponse] = self._loop.create_future()
        self.carrying: asyncio.Task[None] | None = None
        self.arrived = False
        self.first = b""
        """The first content of a stream."""
        self.forbidden = ""
        """The reason for a 403 although the process had all rights."""
        self.behind = False
        """Whether a watch comes from the server that is behind."""
        self._network = network
        self._lost = ""
        self._waiter: asyncio.Future[None] | None = None

    def answer(self, answer: ApiResponse) -> None:
        if not self.answered.done():
            self.status = answer.status
            self.headers = {"Content-Type": answer.content_type, **answer.headers}
            self.answered.set_result(answer)

    async def read(self, limit: int = LONGEST) -> bytes:
        body = b"".join([piece async for piece in self.chunks()])
        if len(body) > limit:
            raise ProtocolError(f"the answer is longer than {limit} bytes")
        return body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        answer = self.answered.result()
        if answer.stream is None:
            yield answer.body
            return
        async for piece in self._network.pieces(answer.stream, self):
            yield piece

    def fail(self, why: str) -> None:
        if not self.answered.done():
            self.answered.set_exception(ConnectionLost(why))
        self._lost = self._lost or why
        self.wake()

    def leave(self, rng: random.Random) -> None:
        """Stop waiting for the response; a request that is already sent may still arrive."""
        if self.answered.done() and not self.answered.cancelled():
            self.answered.exception()
        else:
            self.answered.cancel()
        if self.carrying is not None and not self.arrived and rng.random() < _NEVER_SENT:
            self.carrying.cancel()

    def check(self) -> None:
        if self._lost:
            raise ConnectionLost(self._lost)

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until woken, or for `seconds`; raise ConnectionLost if the connection has failed.

        The method creates no task, because a run waits for thousands of chunks. None means no time limit.
        """
        self.check()
        self._waiter = self._loop.create_future()
        alarm = None if seconds is None else self._loop.call_later(seconds, self.wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if alarm is not None:
                alarm.cancel()
        self.check()
