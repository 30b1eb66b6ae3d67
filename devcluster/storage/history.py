"""The last changes, for watches that start in the past and lists that go on at an earlier version."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from operator import attrgetter

from devcluster.storage.errors import Expired
from devcluster.storage.records import Change

__all__ = ["History"]

_version = attrgetter("version")
# Trimming frees this share of the limit at a time, so that it costs little per change.
_TRIM = 0.1


class History:
    """Recent changes in order: at most `limit` (plus a tenth), with at most `limit_bytes` of objects."""

    def __init__(self, *, start: int, limit: int, limit_bytes: int) -> None:
        """Start the history; `start` is the version before the first change."""
        self.limit = limit
        self.limit_bytes = limit_bytes
        self.oldest = start
        """The earliest version from which everything that followed is known."""
        self._changes: list[Change] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._changes)

    def add(self, change: Change) -> None:
        """Take in a change, newer than any before."""
        self._changes.append(change)
        self._bytes += change.size
        if len(self._changes) > self.limit * (1 + _TRIM) + 1 or self._bytes > self.limit_bytes * (1 + _TRIM):
            self._trim()

    def since(self, version: int) -> Iterator[Change]:
        """Return the changes after `version`, oldest first.

        Raises:
            Expired: the history does not reach back that far.
        """
        self._check(version)
        first = bisect.bisect_right(self._changes, version, key=_version)
        return iter(self._changes[first:])

    def back_to(self, version: int) -> Iterator[Change]:
        """Return the changes after `version`, newest first; raises as `since`."""
        self._check(version)
        first = bisect.bisect_right(self._changes, version, key=_version)
        return reversed(self._changes[first:])

    def expire(self, keep: int = 0) -> None:
        """Forget all but the last `keep` changes."""
        self._drop(len(self._changes) - keep)

    def _check(self, version: int) -> None:
        if version < self.oldest:
            raise Expired(version, self.oldest)

    def _trim(self) -> None:
        count, size = len(self._changes), self._bytes
        drop = 0
        while drop < count and (count - drop > self.limit or size > self.limit_bytes):
            size -= self._changes[drop].size
            drop += 1
        self._drop(drop)

    def _drop(self, count: int) -> None:
        if count <= 0:
            return
        self.oldest = self._changes[count - 1].version
        self._bytes -= sum(change.size for change in self._changes[:count])
        del self._changes[:count]
