"""A network between simulated processes and an API server, with every fault a network has.

Each process has a `SimulatedWire` of its own to a shared server. Requests and answers take time, get lost
one way or the other, and arrive although their sender has given up or died. What goes wrong is drawn from the
wire's random source; how often is up to the `Weather`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from manager.kube.errors import ConnectionLost, Unreachable
from manager.kube.wire import WireRequest
from tests.support.scripted_wire import Reply, ScriptedResponse, Sent, Stream

__all__ = ["SimulatedWire", "Weather"]


@dataclass
class Weather:
    """What the network is like, for one process; may be changed while the simulation runs."""

    delay: float = 0.02
    """Longest time that a request takes to arrive, in seconds."""
    answer_delay: float | None = None
    """Longest time that an answer takes, or the news of a change; None is like `delay`."""
    loss: float = 0.0
    """Part of the requests, and of the answers, that get lost with their connection."""
    refusing: bool = False
    """No connection can be made, and every connection there was is gone."""
    silent: bool = False
    """Nothing arrives, in either direction, and nobody says so."""


class SimulatedWire:
    """Implements `manager.kube.wire.Wire`."""

    host = "simulated.test:443"

    def __init__(self, answer: Callable[[Sent], Reply | Stream], *, rng: Random, weather: Weather) -> None:
        self.weather = weather
        self.requests = 0
        self._answer = answer
        self._rng = rng
        self._connections: dict[int, _Connection] = {}
        self._unplugged = False

    @asynccontextmanager
    async def exchange(self, request: WireRequest) -> AsyncIterator[ScriptedResponse]:
        self.requests += 1
        connection = _Connection(self._rng)
        number = self.requests
        self._connections[number] = connection
        try:
            if self._unplugged:
                await connection.reply
            if self.weather.refusing:
                await asyncio.sleep(self._delay())
                raise Unreachable("connection refused (simulated)")
            sent = Sent.now(request)
            if sent.query.get("watch"):
                yield await self._watch(connection, sent)
            else:
                reply = await self._ask(connection, request, sent)
                yield ScriptedResponse(reply.code, reply.headers, reply.body)
        finally:
            connection.close()
            del self._connections[number]

    def abort(self) -> None:
        self._drop_all()

    async def aclose(self) -> None:
        self._drop_all()

    def unplug(self) -> None:
        """The process is dead: nothing it does has an effect any more, but for what is already on its way."""
        self._unplugged = True
        self._drop_all()

    def change_weather(self, weather: Weather) -> None:
        """Change what the network is like; watches do not survive that it goes down."""
        self.weather = weather
        if weather.refusing:
            self._drop_all()
        elif weather.silent:
            for connection in self._connections.values():
                connection.deaf = True

    def _drop_all(self) -> None:
        for connection in list(self._connections.values()):
            connection.drop()

    def _delay(self) -> float:
        return self._rng.uniform(0.0, self.weather.delay)

    def _answer_delay(self) -> float:
        longest = self.weather.answer_delay
        return self._rng.uniform(0.0, self.weather.delay if longest is None else longest)

    async def _ask(self, connection: _Connection, request: WireRequest, sent: Sent) -> Reply:
        if self.weather.silent:
            return await connection.reply
        lost = self._rng.random()

        def arrive() -> None:
            if lost < self.weather.loss:
                connection.fail()
                return
            reply = self._answer(sent)
            if connection.deaf or self.weather.silent:
                return
            if lost < 2 * self.weather.loss:
                connection.fail()
            else:
                connection.later(self._answer_delay(), connection.answer, reply)

        if request.permit is not None:
            request.permit()
        connection.send(self._delay(), arrive)
        return await connection.reply

    async def _watch(self, connection: _Connection, sent: Sent) -> ScriptedResponse:
        await asyncio.sleep(self._delay())
        if self.weather.silent:
            await connection.reply
        stream = self._answer(sent)
        assert isinstance(stream, Stream)
        connection.stream, arrive = stream, stream.feed

        def feed(piece: bytes) -> None:
            if not connection.deaf:
                connection.later(self._answer_delay(), deliver, piece)

        def deliver(piece: bytes) -> None:
            if not connection.deaf:
                arrive(piece)

        stream.feed = feed  # type: ignore[method-assign] # what is there at the beginning comes with the answer
        return ScriptedResponse(stream.code, {}, stream=stream)


class _Connection:
    """One request and its answer, on their way."""

    def __init__(self, rng: Random) -> None:
        self._loop = asyncio.get_running_loop()
        self._rng = rng
        self.reply: asyncio.Future[Reply] = self._loop.create_future()
        self.stream: Stream | None = None
        self.deaf = False
        self._on_its_way: asyncio.TimerHandle | None = None
        self._last_arrival = 0.0

    def send(self, delay: float, arrive: Any) -> None:
        self._on_its_way = self._loop.call_later(delay, arrive)

    def later(self, delay: float, act: Any, *args: Any) -> None:
        # A connection keeps the order of what is sent over it.
        self._last_arrival = max(self._last_arrival, self._loop.time() + delay)
        self._loop.call_at(self._last_arrival, act, *args)

    def answer(self, reply: Reply) -> None:
        if not self.reply.done() and not self.deaf:
            self.reply.set_result(reply)

    def fail(self) -> None:
        if not self.reply.done():
            self.reply.set_exception(ConnectionLost("connection lost (simulated)"))
        if self.stream is not None:
            self.stream.cut()

    def drop(self) -> None:
        """Break the connection from this end."""
        self.fail()
        self.close()

    def close(self) -> None:
        if self.stream is not None:
            self.stream.closed = True
        if self.reply.done() and not self.reply.cancelled():
            self.reply.exception()  # seen
        # What is on its way may arrive although nobody waits for the answer any more.
        if self._on_its_way is not None and self._rng.random() < 0.5:
            self._on_its_way.cancel()
