"""Time from one source: the running event loop.

Durations and deadlines use `monotonic`, the loop's own time, so a test or a simulation with virtual time
controls them. Wall-clock time is only for values that are shown or stored (conditions, Events, leases, log
lines) and never for measuring durations.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime


def now() -> datetime:
    """Return the time in UTC: from the running loop's `wall_clock()` if it has one, else the machine's."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return datetime.now(UTC)
    wall_clock = getattr(loop, "wall_clock", None)
    if wall_clock is None:
        return datetime.now(UTC)
    return datetime.fromtimestamp(wall_clock(), UTC)


def monotonic() -> float:
    """Return the seconds on the running loop's clock, which never goes back.

    Raises `RuntimeError` outside a running loop.
    """
    return asyncio.get_running_loop().time()
