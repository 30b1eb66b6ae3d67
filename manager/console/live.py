"""Keeps open pages current: each is rendered once for all who see the same, and again after a change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from manager.server.answers import TooManyQuestions

T = TypeVar("T")

PAUSE = 0.2
"""Seconds between two checks for changes, and the least between two renderings."""

_SHARE, _AHEAD = 0.2, 0.2
"""The share of the loop's time for all pages together, and how many seconds they may borrow."""


class Subject(NamedTuple):
    """What a page is about."""

    who: Hashable
    """Equal for all who see the same page."""

    tick: float
    """Seconds after which it is rendered again without a change, because it shows ages."""

    look: Callable[[], Coroutine[Any, Any, dict[str, Any]]]
    """Returns the template's values."""

    glance: Callable[[], Hashable]
    """Returns another value after a change. It takes microseconds."""

    kept: Callable[[], AbstractAsyncContextManager[None]]
    """Entered while somebody has the page open."""


class Allowance:
    """Limits the event loop's time that is spent on pages: beyond a share of it, rendering waits."""

    def __init__(self) -> None:
        self._paid_at = 0.0
        self._queue = asyncio.Lock()
        self._counting = False

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Count the time of the context, which must not `await`; nested ones count once."""
        if self._counting:
            yield
            return
        self._counting, began = True, time.thread_time()
        try:
            yield
        finally:
            self._counting = False
            now = asyncio.get_running_loop().time()
            self._paid_at = max(self._paid_at, now) + (time.thread_time() - began) / _SHARE

    async def paid(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, and count each of its steps."""
        return await _Paid(self, work)

    async def ready(self) -> None:
        """Wait until some time is left."""
        async with self._queue:
            now = asyncio.get_running_loop().time()
            await asyncio.sleep(max(0.0, self._paid_at - now - _AHEAD))


class _Paid(Generic[T]):
    """A coroutine whose steps are counted, and interleaved with others."""

    def __init__(self, allowance: Allowance, work: Coroutine[Any, Any, T]) -> None:
        self._allowance = allowance
        self._work = work

    def __await__(self) -> Generator[Any, Any, T]:
        step: Callable[[], Any] = partial(self._work.send, None)
        while True:
            with self._allowance.spending():
                try:
                    awaited = step()
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]
            try:
                answer = yield awaited
            except BaseException as error:  # noqa: BLE001 - whatever it is, the work is told of it
                step = partial(self._work.throw, error)
            else:
                step = partial(self._work.send, answer)


class Feed:
    """A page's current text, for all who see the same."""

    def __init__(
        self, subject: Subject, render: Callable[[dict[str, Any]], str], allowance: Allowance
    ) -> None:
        self._subject = subject
        self._render = render
        self._allowance = allowance
        self._turn = asyncio.Lock()
        self._news = asyncio.Event()
        self._number = 0
        self._text = ""

    async def work(self) -> None:
        """Keep it current until cancelled. One of all callers does it; when that one ends, the next goes on.

        A change is on the page after `PAUSE` and a rendering, or two if one was under way.
        """
        subject, loop = self._subject, asyncio.get_running_loop()
        async with self._turn, subject.kept():
            while True:
                seen, began = subject.glance(), loop.time()
                with suppress(TooManyQuestions):  # the next look is soon enough
                    await self._look()
                while True:
                    await asyncio.sleep(PAUSE)
                    if subject.glance() != seen or loop.time() >= began + subject.tick:
                        break

    async def _look(self) -> None:
        await self._allowance.ready()
        shown = await self._allowance.paid(self._subject.look())
        with self._allowance.spending():
            text = self._render(shown)
        if text != self._text:
            self._text = text
            self._number += 1
            news, self._news = self._news, asyncio.Event()
            news.set()

    async def after(self, number: int) -> tuple[int, str]:
        """Wait for a later text than this number's; 0 is before the first."""
        while self._number == number:
            await self._news.wait()
        return self._number, self._text


class Feeds:
    """The feeds of all open pages."""

    def __init__(self) -> None:
        self.allowance = Allowance()
        self._feeds: WeakValueDictionary[Hashable, Feed] = WeakValueDictionary()

    def of(self, subject: Subject, render: Callable[[dict[str, Any]], str]) -> Feed:
        """The feed that is shared by all who see the same, made on demand."""
        feed = self._feeds.get(subject.who)
        if feed is None:
            feed = self._feeds[subject.who] = Feed(subject, render, self.allowance)
        return feed
