"""Answers that are remembered for a while, shared by concurrent questions, and asked for in turns."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from manager.util.rate_limit import TokenBucket

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Answers(Generic[K, V]):
    """A bounded memory of answers by question.

    Answers that are true and answers that are not are remembered apart: any client can cause more of the
    second sort, and must not push out the first.

    A question that is being answered already waits for the same answer. The work ends when its last caller is
    gone. A failure reaches all of its callers, and is not remembered.
    """

    def __init__(self, *, limit: int, keep_yes: float, keep_no: float) -> None:
        """Create a cache of answers.

        Args:
            limit: maximum of cached answers of either sort; the least recently used one is evicted.
            keep_yes: seconds for which a true answer is valid.
            keep_no: seconds for which any other answer is valid.
        """
        self._limit = limit
        self._kept = {True: keep_yes, False: keep_no}
        self._known: dict[bool, OrderedDict[K, _Answer[V]]] = {True: OrderedDict(), False: OrderedDict()}
        self._searches: dict[K, _Search[V]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    def was_yes(self, question: K) -> bool:
        """Return whether the last answer was yes, even if it is too old by now to be given again."""
        return question in self._known[True]

    async def get(self, question: K, find: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Return the remembered answer, or else the one of `find`; raises what `find` raises."""
        now = asyncio.get_running_loop().time()
        for known in self._known.values():
            if question in known and (answer := known[question]).held and now < answer.until:
                known.move_to_end(question)
                return answer.held[0]
        search = self._searches.get(question)
        if search is None:
            search = self._searches[question] = _Search(find())
        search.waiting += 1
        try:
            # Not a plain await, which would cancel the task with the first who leaves.
            await asyncio.wait([search.task])
            found = search.task.result()
        finally:
            search.waiting -= 1
            # Later questions share neither a failure nor a search that was given up.
            if self._searches.get(question) is search and (search.task.done() or not search.waiting):
                del self._searches[question]
            if not search.waiting and not search.task.done():
                search.task.cancel()
                await asyncio.wait([search.task])
        self._remember(question, found)
        return found

    def _remember(self, question: K, found: V) -> None:
        yes = bool(found)
        for known in self._known.values():
            if question in known:
                known.pop(question).forget()
        known = self._known[yes]
        known[question] = _Answer(found, self._kept[yes])
        while len(known) > self._limit:
            known.popitem(last=False)[1].forget()


class _Answer(Generic[V]):
    """A remembered answer. Its value, which may be large, is dropped when it is too old."""

    def __init__(self, found: V, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self.held, self.until = [found], loop.time() + seconds
        self._timer = loop.call_at(self.until, self.held.clear)

    def forget(self) -> None:
        self._timer.cancel()
        self.held.clear()


class _Search(Generic[V]):
    """The work for an answer, and how many callers wait for it."""

    def __init__(self, work: Coroutine[Any, Any, V]) -> None:
        self.task = asyncio.create_task(work, name="review")
        self.waiting = 0


KNOWN_AT_ONCE = 8
"""Questions under way at once whose answer was yes before; more of them wait."""

STRANGERS_AT_ONCE = 4
"""All other questions under way at once."""

STRANGERS_PER_SECOND = 20
"""How often the server is asked those, on average."""

WAITING = 8
"""Questions of one stranger that wait or are under way; more are turned away."""

PATIENCE = 5.0
"""Seconds that a stranger waits for a turn."""


class TooManyQuestions(Exception):
    """More is asked whose answer was not yes before than the API server is asked about."""


@dataclass(slots=True)
class _Asking:
    asking: int = 0
    turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))


class Turns:
    """Turns for questions to the API server: enter one of the contexts for each question.

    Questions of strangers are bounded, and strangers take turns: a thousand questions of one stranger do not
    hold back a single question of another.
    """

    def __init__(self) -> None:
        self._known = asyncio.Semaphore(KNOWN_AT_ONCE)
        self._strangers = asyncio.Semaphore(STRANGERS_AT_ONCE)
        self._pace = TokenBucket(rate=STRANGERS_PER_SECOND, burst=STRANGERS_PER_SECOND)
        self._waiting: dict[str, _Asking] = {}

    @asynccontextmanager
    async def of_known(self) -> AsyncIterator[None]:
        """Wait for a turn of a question whose answer was yes before."""
        async with self._known:
            yield

    @asynccontextmanager
    async def of_stranger(self, stranger: str) -> AsyncIterator[None]:
        """Wait for a turn of any other question of `stranger`. Raises `TooManyQuestions`."""
        here = self._waiting.setdefault(stranger, _Asking())
        if here.asking >= WAITING:
            raise TooManyQuestions(f"{WAITING} questions of one client or user wait already")
        here.asking += 1
        try:
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(PATIENCE):
                        # One of each stands in the common queue, so it goes round them all.
                        await stack.enter_async_context(here.turn)
                        await stack.enter_async_context(self._strangers)
                        await self._pace.acquire()
                except TimeoutError:
                    raise TooManyQuestions("too many questions wait already") from None
                yield
        finally:
            here.asking -= 1
            if not here.asking:
                del self._waiting[stranger]
