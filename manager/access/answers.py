"""Answers that are remembered for a while, and found once for all who ask meanwhile."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

__all__ = ["Answers"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Answers(Generic[K, V]):
    """A bounded memory of answers by question.

    Who asks what is being found out already waits for that. The work ends when the last who waited for it
    has gone. A failure is everybody's who waited, and is not remembered.
    """

    def __init__(self, *, limit: int, keep: Callable[[V], float]) -> None:
        """`limit`: answers to remember; the one not asked for the longest goes. `keep`: seconds for each."""
        self._limit = limit
        self._keep = keep
        self._known: OrderedDict[K, tuple[V, float]] = OrderedDict()
        self._searches: dict[K, _Search[V]] = {}

    def __len__(self) -> int:
        return len(self._known)

    async def get(self, question: K, find: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """The answer remembered, or else what `find` answers; raises what that raises."""
        known = self._known.get(question)
        if known is not None:
            answer, until = known
            if asyncio.get_running_loop().time() < until:
                self._known.move_to_end(question)
                return answer
            del self._known[question]
        search = self._searches.get(question)
        if search is None:
            search = self._searches[question] = _Search(find())
        search.waiting += 1
        try:
            # Not a plain await, which would cancel the task with the first who leaves.
            await asyncio.wait([search.task])
            answer = search.task.result()
        finally:
            search.waiting -= 1
            # Whoever asks from now on shares neither a failure nor a search that was given up.
            if self._searches.get(question) is search and (search.task.done() or not search.waiting):
                del self._searches[question]
            if not search.waiting and not search.task.done():
                search.task.cancel()
                await asyncio.wait([search.task])
        self._remember(question, answer)
        return answer

    def _remember(self, question: K, answer: V) -> None:
        self._known[question] = answer, asyncio.get_running_loop().time() + self._keep(answer)
        self._known.move_to_end(question)
        while len(self._known) > self._limit:
            self._known.popitem(last=False)


class _Search(Generic[V]):
    """A task, and how many wait for it."""

    def __init__(self, work: Coroutine[Any, Any, V]) -> None:
        self.task = asyncio.create_task(work, name="review")
        self.waiting = 0
