"""The position in a log, so that no line is lost or repeated after a broken connection."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime

__all__ = ["LogPosition"]

# The server's format at the beginning of each line: 2026-01-31T12:00:00.123456789Z.
TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d) ")


class LogPosition:
    """A position in the log of one container, read with `timestamps=True`.

    The server can only continue a log at a whole second. So this class keeps the lines of the last second,
    and recognises them when they are sent again.
    """

    def __init__(self) -> None:
        self._second = ""
        self._read: Counter[str] = Counter()
        self._to_come_again: Counter[str] = Counter()

    def resume(self) -> datetime | None:
        """Return the time from which to read again, None for the start; call it before each connection."""
        self._to_come_again = self._read.copy()
        return datetime.fromisoformat(self._second) if self._second else None

    def advance(self, line: str) -> str | None:
        """Add a line; return it without its timestamp, or None if it was read before."""
        if self._to_come_again[line] > 0:
            self._to_come_again[line] -= 1
            return None
        stamp = TIMESTAMP.match(line)
        if stamp is not None:
            second = stamp[1] + stamp[2]
            if second > self._second:
                self._second = second
                self._read.clear()
        self._read[line] += 1
        return line if stamp is None else line[stamp.end() :]
