"""SIGTERM and SIGINT: the first asks for a stop in order, the second ends the process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from manager.logs import get_logger

__all__ = ["StopSignals"]

T = TypeVar("T")

_SIGNALS = signal.SIGTERM, signal.SIGINT
_FORCED = 1

_log = get_logger("signals")


class StopSignals:
    """While entered, the first signal sets `stop`, and the second one exits at once with code 1.

    A context manager, to be entered in the running loop. Left, it puts back the handlers that were there.
    """

    def __init__(self, *, before_exit: Callable[[], object]) -> None:
        """`before_exit` is called before the exit at once, which writes nothing that is buffered."""
        self.stop = asyncio.Event()
        self._before_exit = before_exit
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            self._previous[number] = signal.getsignal(number)
            loop.add_signal_handler(number, self._received, number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            # The loop leaves a default of its own, which for SIGINT is a traceback.
            signal.signal(number, self._previous[number])

    async def unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of `work`, or None when the stop comes first, which cancels it."""
        asked = asyncio.create_task(self.stop.wait(), name="stop-asked")
        working = asyncio.create_task(work, name="start")
        try:
            await asyncio.wait((asked, working), return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
            if not working.done():
                working.cancel()
            await asyncio.wait((asked, working))
        return None if working.cancelled() else working.result()

    def _received(self, number: signal.Signals) -> None:
        if self.stop.is_set():
            _log.error("exiting at once on a second signal", signal=number.name)
            self._before_exit()
            os._exit(_FORCED)
        _log.info("asked to stop; a second signal exits at once", signal=number.name)
        self.stop.set()
