"""The event loop, and how busy it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from prometheus_client import Histogram

__all__ = ["count_tasks", "loop_factory", "observe_lag"]

_LAG_INTERVAL = 1.0


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the event loop: uvloop where it is installed, else the standard one."""
    try:
        import uvloop  # noqa: PLC0415 - not there on every platform
    except ImportError:
        return asyncio.new_event_loop

    class ExactLoop(uvloop.Loop):
        """uvloop, but for its clock.

        That one counts milliseconds and stands still while callbacks run: too coarse for
        durations, and after a pause of the machine a deadline that has passed would seem ahead.
        """

        time = staticmethod(time.monotonic)

    return ExactLoop


def count_tasks() -> int:
    """How many tasks of the running loop are not done, the caller's own included."""
    return len(asyncio.all_tasks())


async def observe_lag(lag: Histogram) -> None:
    """Record, once a second and until cancelled, how late the loop runs a timer."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LAG_INTERVAL
        await asyncio.sleep(_LAG_INTERVAL)
        lag.observe(max(0.0, loop.time() - due))
