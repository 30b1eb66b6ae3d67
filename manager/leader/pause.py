"""Waiting that can be cut short."""

from __future__ import annotations

import asyncio
import math

__all__ = ["TIMER_ERROR", "pause"]

TIMER_ERROR = 1e-6
"""Seconds by which a timer may fire early, because times are rounded: that early is in time."""


async def pause(wake: asyncio.Event, *, until: float) -> None:
    """Return when the event is set, or at the loop time `until` (infinity is never), whichever is first."""
    try:
        # Not every event loop takes an infinite time for a timer.
        async with asyncio.timeout_at(None if until == math.inf else until):
            await wake.wait()
    except TimeoutError:
        pass
