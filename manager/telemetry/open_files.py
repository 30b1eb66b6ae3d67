"""Limit of the process's open files and connections, and its behaviour at the limit."""

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
"""The limit below which not everything works: five idle operators have forty files open, some twenty more
with work for each, and a quarter is kept from unknown clients."""

_PLENTY = 16384
"""The limit above which files are not counted: clients have not nearly as many connections."""

NONE_LEFT = {errno.EMFILE, errno.ENFILE}
"""The errors when no more file can be opened."""

_DESCRIPTORS = Path("/dev/fd")

_LOOK = 1.0
"""Seconds from one look to the next."""

_log = get_logger("open-files")


def raised_limit() -> int:
    """Raise the limit as far as the process may, as Go's runtime does, and return what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS allows less than it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def are_scarce() -> bool:
    """Return whether only a quarter is left, which is for our own connections and files.

    They are counted: the number of a descriptor does not tell, as those below it come free again.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit > _PLENTY:
        return False
    try:
        return sum(1 for _ in _DESCRIPTORS.iterdir()) >= limit - limit // 4
    except OSError as error:
        return error.errno in NONE_LEFT


async def report_exhaustion() -> None:
    """Log until cancelled when no file descriptor is left, and then less and less often."""
    repeats = Repeats()
    while True:
        reserve = Reserve()
        if not reserve.take() and (looks := repeats.count()) is not None:
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            _log.error(
                f"all of {limit} open files that are allowed are open: nothing connects and no file is read; "
                "raise the limit (ulimit -n)",
                looks=looks,
            )
        reserve.give_up()
        await asyncio.sleep(_LOOK)


class Reserve:
    """A file descriptor that is kept for when there is no other."""

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
        """Open it, unless it is open; return False if no descriptor is left for it."""
        if self._fd is None and not self._over:
            try:
                self._fd = os.open(os.devnull, os.O_RDONLY)
            except OSError:
                return False
        return True

    def give_up(self) -> bool:
        """Close it, for whoever needs a descriptor next; return False if it is not open."""
        if self._fd is None:
            return False
        fd, self._fd = self._fd, None
        os.close(fd)
        return True
