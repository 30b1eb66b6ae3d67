"""Clock that gives a cluster its time of day; replace it to run a cluster in virtual time."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable


class Clock:
    """Source of the timestamps in objects; certificates do not use it.

    `read` returns seconds since the epoch, like `time.time`. Durations and deadlines use the event loop's
    clock instead.
    """

    def __init__(self, read: Callable[[], float] = time.time) -> None:
        self._read = read
        self._second = -1
        self._text = ""

    def now(self) -> datetime.datetime:
        """Return the current time in UTC."""
        return datetime.datetime.fromtimestamp(self._read(), datetime.UTC)

    def timestamp(self) -> str:
        """Return the current time as a metav1.Time: `2026-01-31T12:00:00Z`."""
        second = int(self._read())
        if second != self._second:
            self._text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
            self._second = second
        return self._text

    def micro_timestamp(self) -> str:
        """Return the current time as a metav1.MicroTime: `2026-01-31T12:00:00.000000Z`."""
        return self.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
