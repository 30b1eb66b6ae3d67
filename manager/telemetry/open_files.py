"""The limit of the process's open files and connections, and the behaviour at the limit."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

from manager.telemetry.logs import get_logger
from manager.util.rate_limit import Repeats

LEAST = 128
"""The limit below which some functions fail: five idle operators have forty files open, some twenty more with
work for each, and a quarter is reserved against unknown clients."""

_PLENTY = 16384
"""The limit above which files are not counted, because clients have far fewer connections."""

NONE_LEFT = {errno.EMFILE, errno.ENFILE}
"""The errors if no more file can be opened."""

_DESCRIPTORS = Path("/dev/fd")

_LOOK = 1.0
"""Seconds between two checks."""

_log = get_logger("open-files")


def raised_limit() -> int:
    """Raise the limit of open files as far as allowed, like Go's runtime; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS allows less than it reports
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def are_scarce() -> bool:
    """Return whether at most a quarter of the file descriptors is left; our own work needs this quarter.

    Open files are counted: the highest descriptor number does not show that lower ones are free again.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit > _PLENTY:
        return False
    try:
        return sum(1 for _ in _DESCRIPTORS.iterdir()) >= limit - limit // 4
    except OSError as error:
        return error.errno in NONE_LEFT


async def report_exhaustion() -> None:
    """Log whenever no file descriptor is left, but less and less often, until cancelled."""
    repeats = Repeats()
    while True:
        reserve = Reserve()
        if not reserve.take() and (times := repeats.count()) is not None:
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            _log.error(
                "no file descriptor is left for connections and files; raise the limit (ulimit -n)",
                limit=limit,
                times=times,
            )
        reserve.give_up()
        await asyncio.sleep(_LOOK)


class Reserve:
    """A file descriptor that is reserved for the time when all others are in use."""

    def __init__(self) -> None:
        self._fd: int | None = None
        self._over = False

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self.give_up()

    def take(self) -> bool:
        """Open the reserve if it is closed; return False if no descriptor is left for it."""
        if self._fd is None and not self._over:
            try:
                self._fd = os.open(os.devnull, os.O_RDONLY)
            except OSError:
                return False
        return True

    def give_up(self) -> bool:
        """Close the reserve to free a descriptor; return False if it is not open."""
        if self._fd is None:
            return False
        fd, self._fd = self._fd, None
        os.close(fd)
        return True
