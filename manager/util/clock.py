"""Time from one source: the running event loop.

Durations and deadlines use `monotonic`, which is the loop's own time; a test or a simulation
that runs the loop in virtual time therefore controls them. Wall-clock time is only for what is
shown or stored (conditions, Events, leases, log lines) and never for measuring how long
something took.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime


def now() -> datetime:
    """Return the time in UTC: of the running loop's `wall_clock()` if it has one, else the machine's."""
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
