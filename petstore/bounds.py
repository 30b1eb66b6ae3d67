"""What a call may take: time, and a place among others of its kind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import grpc

__all__ = ["Bound", "Bounded", "CallRefused", "Context", "Place", "Places", "unless_gone"]

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


class CallRefused(Exception):
    """The call ends with `code` and this text, which is for people."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class Place:
    """One that a connection holds; `give_up` is called when it is another's from now on."""

    __slots__ = ("connection", "give_up")

    def __init__(self, connection: str, give_up: Callable[[], None]) -> None:
        self.connection = connection
        self.give_up = give_up


class Places:
    """A number of places. When none is left, the connection that holds most gives up its oldest for another.

    So who holds none always gets one, and who tries again as often as it likes gets no more than its share.
    """

    def __init__(self, number: int, what: str) -> None:
        """`what` takes them, for people."""
        self._free = number
        self._held: dict[str, dict[Place, None]] = {}
        self.refusal = f"too many {what} are under way; try again later"
        """What is said to who gets none, or gives one up."""

    def take(self, connection: str, give_up: Callable[[], None]) -> Place:
        """One that is held until `leave`, or until `give_up` is called, which must not raise.

        Raises:
            CallRefused: there is none, and nobody holds more of them.
        """
        if self._free <= 0:
            self._make_room(connection)
        place = Place(connection, give_up)
        self._free -= 1
        self._held.setdefault(connection, {})[place] = None
        return place

    def leave(self, place: Place) -> None:
        """Give it back, if it is still held."""
        held = self._held.get(place.connection)
        if held is not None and place in held:
            del held[place]
            self._free += 1
            if not held:
                del self._held[place.connection]

    def _make_room(self, connection: str) -> None:
        mine = len(self._held.get(connection, ()))
        most = max(self._held.values(), key=len)
        # Two who hold almost as many would only push each other out.
        if mine and mine + 1 >= len(most):
            raise CallRefused(grpc.StatusCode.RESOURCE_EXHAUSTED, self.refusal)
        place = next(iter(most))
        self.leave(place)
        place.give_up()


@dataclass(frozen=True, slots=True)
class Bound:
    """What a part of each call of some kind may take; None is no bound."""

    seconds: float | None = None
    places: Places | None = None

    def around(self, context: Context, *, reading: bool = False) -> Bounded:
        """To be entered for that part; `reading` if it reads from the client."""
        return Bounded(self, context, reading=reading)


class Bounded:
    """Ends a part of a call when its time is over, or its place another's: what goes on in it is cancelled.

    Entering and leaving raise CallRefused then. Whoever reads is not cancelled, as gRPC would keep for good
    what comes after that: the call is ended, and the reading with it.
    """

    __slots__ = (
        "_bound",
        "_context",
        "_ending",
        "_loop",
        "_place",
        "_reading",
        "_refused",
        "_task",
        "_timer",
    )

    def __init__(self, bound: Bound, context: Context, *, reading: bool) -> None:
        self._bound = bound
        self._context = context
        self._reading = reading
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._place: Place | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._refused: CallRefused | None = None
        self._ending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._bound.places is not None:
            self._place = self._bound.places.take(self._context.peer(), self._give_way)
        self.restart()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._bound.places is not None and self._place is not None:
            self._bound.places.leave(self._place)
        if self._ending is not None:
            await self._ending
        elif self._refused is not None and self._task is not None:
            # Others may have cancelled it as well: the client, who is gone.
            others = self._task.uncancel()
            if kind is asyncio.CancelledError and not others:
                raise self._refused from None

    def restart(self) -> None:
        """Give it all of its time again."""
        if self._timer is not None:
            self._timer.cancel()
        if self._bound.seconds is not None:
            self._timer = self._loop.call_later(self._bound.seconds, self._be_late)

    def _be_late(self) -> None:
        self._end(grpc.StatusCode.DEADLINE_EXCEEDED, f"nothing came of it for {self._bound.seconds:g} s")

    def _give_way(self) -> None:
        assert self._bound.places is not None
        self._end(grpc.StatusCode.RESOURCE_EXHAUSTED, self._bound.places.refusal)

    def _end(self, code: grpc.StatusCode, text: str) -> None:
        if self._refused is not None:
            return
        self._refused = CallRefused(code, text)
        if self._reading:
            self._ending = self._loop.create_task(unless_gone(self._context.abort(code, text)))
        elif self._task is not None:
            self._task.cancel()


async def unless_gone(sending: Awaitable[None]) -> None:
    """Send it. When the client is gone the call is cancelled, for which gRPC would log an error each time."""
    try:
        await sending
    except grpc.aio.InternalError:
        raise asyncio.CancelledError from None
