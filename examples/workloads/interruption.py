"""Handling of Ctrl-C and SIGTERM: the first signal starts an orderly end, the second kills the process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from examples.workloads.screen import say

__all__ = ["Interrupted", "Interruption"]

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
FORCED = 1


class Interrupted(Exception):
    """An error: the user has interrupted the program."""


class Interruption:
    """A scope in which a signal cancels only the work inside `unless_asked`; clean-up continues.

    Attributes: `left_behind` describes the objects that stay on the cluster if the process ends now; "" for
    none.
    """

    def __init__(self) -> None:
        self.left_behind = ""
        self._asked = False
        self._work: asyncio.Task[Any] | None = None

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._received, number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    async def unless_asked(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`; an interruption cancels it and raises Interrupted."""
        task = asyncio.create_task(work)
        self._work = task
        if self._asked:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            if not self._asked:
                raise
            raise Interrupted from None
        finally:
            self._work = None

    def _received(self, number: signal.Signals) -> None:
        if self._asked:
            hint = f"; left behind: {self.left_behind}" if self.left_behind else ""
            say(f"{number.name} again: ending at once{hint}")
            os._exit(FORCED)
        self._asked = True
        say(f"{number.name}: cleaning up (once more ends at once)")
        if self._work is not None:
            self._work.cancel()
