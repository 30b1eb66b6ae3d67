"""An event loop in its own thread, for a test that blocks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

T = TypeVar("T")

COMMAND_TIMEOUT = 60.0


class LoopThread:
    """Thread with an event loop for the length of a `with` block."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.run(self._open())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.run(self._close())
        finally:
            self._end()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread's event loop; block until its end and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(COMMAND_TIMEOUT)

    async def _open(self) -> None:
        raise NotImplementedError

    async def _close(self) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(COMMAND_TIMEOUT)
        self.loop.close()
