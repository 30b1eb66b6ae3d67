"""SIGTERM and SIGINT: the first asks for a stop in order, the second ends the process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from functools import partial
from types import FrameType
from typing import Any, Self, TypeVar

from manager.telemetry.logs import get_logger
from manager.telemetry.watchdog import LastWords, Watchdog

T = TypeVar("T")

_SIGNALS = signal.SIGTERM, signal.SIGINT

_log = get_logger("signals")


class StopSignals:
    """While entered, the first signal sets `stop`, and the second one exits at once with code 1.

    Both also when the event loop is blocked: the first has the watchdog see to it that the process ends in
    time, the second has it do so at once. A context manager, to be entered in the running loop. Left, it puts
    back the handlers that were there.
    """

    def __init__(self, watchdog: Watchdog) -> None:
        """`watchdog` has been entered: signals come by it."""
        self.stop = asyncio.Event()
        self._watchdog = watchdog
        self._asked = False
        self._loop = asyncio.get_running_loop()
        self._left = ExitStack()

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            # Not by the loop's own way, which waits until the loop has time. This only has them caught.
            before = signal.signal(number, self._caught)
            self._left.callback(signal.signal, number, before)
        self._left.enter_context(self._watchdog.on_signals(self._received))
        return self

    def __exit__(self, *_: object) -> None:
        self._left.close()

    async def unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of `work`, or None if the stop comes first and cancels `work`."""
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

    def _caught(self, number: int, frame: FrameType | None) -> None:
        """Pass a signal on to the watchdog, in the main thread when it has time, which may be too late."""
        del frame
        self._watchdog.ensure_heard(number)

    def _received(self, number: int) -> LastWords | None:
        """Handle a signal in the watchdog's thread; a second one returns the last words of the process."""
        if number not in _SIGNALS:
            return None
        name = signal.Signals(number).name
        if self._asked:
            return partial(_log.error, "exiting at once on a second signal", signal=name)
        self._asked = True
        self._watchdog.stopping()
        _log.info("asked to stop; a second signal exits at once", signal=name)
        with suppress(RuntimeError):  # the loop has just been closed
            self._loop.call_soon_threadsafe(self.stop.set)
        return None
