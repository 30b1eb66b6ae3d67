"""Keeping a page current: one looks for all who see the same, and looks again when there is reason to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from manager.access.answers import TooManyQuestions

T = TypeVar("T")

PAUSE = 0.2
"""Seconds between two glances, and at least between two looks at the same."""

_SHARE, _AHEAD = 0.2, 0.2
"""What all pages together may take of the loop's time, and seconds by which they may be ahead of it."""


class Subject(NamedTuple):
    """What a page is about."""

    who: Hashable
    """Those for whom this is equal see the same."""

    tick: float
    """Seconds after which it is looked at though a glance shows nothing: ages grow."""

    look: Callable[[], Coroutine[Any, Any, dict[str, Any]]]
    """Answers what a template is to show."""

    glance: Callable[[], Hashable]
    """Answers something else when there is reason to look again. It takes some microseconds."""

    kept: Callable[[], AbstractAsyncContextManager[None]]
    """While the context lasts, somebody looks again and again."""


class Allowance:
    """The time of the event loop that is spent on pages: beyond a share of it, looks wait."""

    def __init__(self) -> None:
        self._paid_at = 0.0
        self._queue = asyncio.Lock()
        self._counting = False

    @contextmanager
    def spending(self) -> Iterator[None]:
        """What is done in the context counts, and once; there is no `await` in it."""
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
        """Do this work, of which each step counts."""
        return await _Paid(self, work)

    async def ready(self) -> None:
        """Wait until there is some left."""
        async with self._queue:
            now = asyncio.get_running_loop().time()
            await asyncio.sleep(max(0.0, self._paid_at - now - _AHEAD))


class _Paid(Generic[T]):
    """A coroutine whose steps count; between them others have their turn."""

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
    """One page, as it is now, for all who see the same."""

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
        """Keep it current, until cancelled. Of all who call this, one does, and then the next one.

        What a glance shows is on the page after `PAUSE` and a look, or two where one was under way.
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
        """Wait for another text than that of this number; 0 is none."""
        while self._number == number:
            await self._news.wait()
        return self._number, self._text


class Feeds:
    """Those that somebody sees."""

    def __init__(self) -> None:
        self.allowance = Allowance()
        self._feeds: WeakValueDictionary[Hashable, Feed] = WeakValueDictionary()

    def of(self, subject: Subject, render: Callable[[dict[str, Any]], str]) -> Feed:
        """The one that who sees the same has already, or a new one."""
        feed = self._feeds.get(subject.who)
        if feed is None:
            feed = self._feeds[subject.who] = Feed(subject, render, self.allowance)
        return feed
