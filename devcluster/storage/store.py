"""Store of the current objects, the history of changes, and watches."""

from __future__ import annotations

import asyncio
import bisect
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Protocol

from devcluster.equality import equal
from devcluster.storage.records import (
    Change,
    Exists,
    Expired,
    JournalFailed,
    Key,
    Missing,
    Object,
    Overflow,
    Stored,
    VersionConflict,
)


class Watch:
    """Watch of a resource's changes after a version, in one or all namespaces. Close it at the end."""

    def __init__(
        self, *, namespace: str, limit: int, limit_bytes: int, closed: Callable[[Watch], None]
    ) -> None:
        """Set up the watch; it overflows above `limit` unread changes, or `limit_bytes` of their objects."""
        self.namespace = namespace
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._count = 0
        self._bytes = 0
        self._pending: list[Change] = []
        self._overflown = False
        self._waiter: asyncio.Future[None] | None = None
        self._closed: Callable[[Watch], None] | None = closed

    def push(self, change: Change) -> None:
        """Add a change if it is in the watch's namespace; only the store calls this."""
        if self.namespace and change.key.namespace != self.namespace:
            return
        if self._overflown:
            return
        self._count += 1
        self._bytes += change.size
        if self._count > self._limit or (self._count > 1 and self._bytes > self._limit_bytes):
            self._overflown = True
            self._pending.clear()
        else:
            self._pending.append(change)
        self._wake()

    def replay(self, changes: Iterable[Change]) -> None:
        """Add changes from the history at the start; the limits apply only to later changes."""
        self._pending += [
            change for change in changes if not self.namespace or change.key.namespace == self.namespace
        ]

    async def next(self, timeout: float | None = None) -> list[Change]:
        """Return all unread changes, waiting if there are none.

        Returns an empty list after `timeout` seconds without a change (None: no limit), or when the watch is
        closed.

        Raises:
            Overflow: the watch was read too slowly, and has lost changes.
        """
        if not self._pending and not self._overflown and self._closed is not None:
            await self._wait(timeout)
        if self._overflown:
            raise Overflow
        changes, self._pending, self._count, self._bytes = self._pending, [], 0, 0
        return changes

    @property
    def closed(self) -> bool:
        """Whether the watch is closed, so that no more changes will come."""
        return self._closed is None

    def close(self) -> None:
        """Close the watch; a reader that waits gets an empty list."""
        if self._closed is not None:
            closed, self._closed = self._closed, None
            closed(self)
            self._wake()

    async def _wait(self, timeout: float | None) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = waiter = loop.create_future()
        alarm = None if timeout is None else loop.call_later(max(0.0, timeout), _set, waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            if alarm is not None:
                alarm.cancel()

    def _wake(self) -> None:
        if self._waiter is not None:
            _set(self._waiter)


def _set(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def path_of(key: Key) -> str:
    """Return the key by which objects sort in the real server's etcd: `namespace/name`."""
    return f"{key.namespace}/{key.name}" if key.namespace else key.name


class Table:
    """Objects of one resource, by the `path_of` of their keys."""

    __slots__ = ("objects", "paths")

    def __init__(self) -> None:
        self.objects: dict[str, Stored] = {}
        self.paths: list[str] = []

    def put(self, path: str, stored: Stored) -> None:
        if path not in self.objects:
            bisect.insort(self.paths, path)
        self.objects[path] = stored

    def remove(self, path: str) -> None:
        del self.objects[path]
        del self.paths[bisect.bisect_left(self.paths, path)]

    def select(self, namespace: str = "") -> list[Stored]:
        """Return the objects of a namespace; "" means all namespaces."""
        paths = self.paths
        if namespace:
            # '0' is the character after '/'.
            first = bisect.bisect_left(paths, f"{namespace}/")
            paths = paths[first : bisect.bisect_left(paths, f"{namespace}0", first)]
        objects = self.objects
        return [objects[path] for path in paths]


_version = attrgetter("version")
# Trimming frees this fraction of the limit at once, so that it costs little per change.
_TRIM = 0.1


class History:
    """History of recent changes, in order.

    It keeps the newest changes: at most `limit`, with at most `limit_bytes` of objects, both plus a tenth.
    """

    def __init__(self, *, start: int, limit: int, limit_bytes: int) -> None:
        """Set up the history; `start` is the version before the first change."""
        self.limit = limit
        self.limit_bytes = limit_bytes
        self.oldest = start
        """The first version after which the history has all changes."""
        self._changes: list[Change] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._changes)

    def add(self, change: Change) -> None:
        """Add a change, which must be newer than all others."""
        self._changes.append(change)
        self._bytes += change.size
        if len(self._changes) > self.limit * (1 + _TRIM) + 1 or self._bytes > self.limit_bytes * (1 + _TRIM):
            self._trim()

    def since(self, version: int) -> list[Change]:
        """Return the changes after `version`, oldest first; raise Expired if the history begins later."""
        if version < self.oldest:
            raise Expired(version, self.oldest)
        return self._changes[bisect.bisect_right(self._changes, version, key=_version) :]

    def expire(self) -> None:
        self._drop(len(self._changes))

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


HISTORY_CHANGES = 20_000
HISTORY_BYTES = 128 << 20
WATCH_BACKLOG = 20_000
WATCH_BACKLOG_BYTES = 32 << 20


class Disk(Protocol):
    """Protocol of a store's persistence, such as `Journal`."""

    version: int
    """The last version on the disk."""

    def load(self) -> Iterable[Stored]:
        """Return all objects."""

    def write(self, change: Change) -> None:
        """Queue a change, which is written later."""

    async def durable(self, version: int) -> None:
        """Wait until all changes up to `version` are durable; raise JournalFailed if that is impossible."""

    async def aclose(self) -> None:
        """Write all pending changes, and close the storage."""


class Store:
    """Store of objects as JSON, by key; all methods except `durable` and `settled` are synchronous.

    With a journal, the store starts with the journal's objects.
    """

    def __init__(
        self,
        journal: Disk | None = None,
        *,
        history: int = HISTORY_CHANGES,
        history_bytes: int = HISTORY_BYTES,
        watch_backlog: int = WATCH_BACKLOG,
        watch_backlog_bytes: int = WATCH_BACKLOG_BYTES,
    ) -> None:
        """Set up the store.

        `history` and `history_bytes` limit the history. `watch_backlog` and `watch_backlog_bytes` limit the
        unread changes of each watch. Lower limits save memory, higher limits avoid 410 responses.
        """
        self.version = 1
        self._tables: dict[tuple[str, str], Table] = defaultdict(Table)
        self._watches: dict[tuple[str, str], list[Watch]] = defaultdict(list)
        self._subscribers: list[Callable[[Change], None]] = []
        self._backlog = watch_backlog
        self._backlog_bytes = watch_backlog_bytes
        self._journal = journal
        if journal is not None:
            self.version = max(self.version, journal.version)
            for stored in journal.load():
                self._tables[stored.key[:2]].put(path_of(stored.key), stored)
        self._history = History(start=self.version, limit=history, limit_bytes=history_bytes)

    # Reading

    def get(self, key: Key) -> Stored | None:
        """Return the object with this key, or None."""
        table = self._tables.get(key[:2])
        return None if table is None else table.objects.get(path_of(key))

    def select(self, group: str, plural: str, namespace: str = "") -> list[Stored]:
        """Return the objects of a resource, sorted by `path_of`; "" as `namespace` means all namespaces."""
        table = self._tables.get((group, plural))
        return [] if table is None else table.select(namespace)

    def select_at(self, version: int, group: str, plural: str, namespace: str = "") -> Sequence[Stored]:
        """Return a resource's objects at an earlier version; raise Expired if the history begins later."""
        state = {path_of(each.key): each for each in self.select(group, plural, namespace)}
        for change in reversed(self._history.since(version)):
            key = change.key
            if key[:2] != (group, plural) or (namespace and key.namespace != namespace):
                continue
            if change.old is None:
                state.pop(path_of(key), None)
            else:
                state[path_of(key)] = change.old
        return [state[path] for path in sorted(state)]

    def count(self, group: str, plural: str) -> int:
        table = self._tables.get((group, plural))
        return 0 if table is None else len(table.paths)

    def resources(self) -> list[tuple[str, str]]:
        """Return (group, plural) of each resource that has objects."""
        return [names for names, table in self._tables.items() if table.paths]

    # Writing

    def create(self, key: Key, obj: Object) -> Stored:
        """Store a new object, and set its resourceVersion; raise Exists if it already exists."""
        if self.get(key) is not None:
            raise Exists
        new = Stored.of(key, self.version + 1, obj)
        self._commit(Change(new.version, key, None, new))
        return new

    def update(self, key: Key, obj: Object, *, expected: int | None = None) -> Stored:
        """Replace an object; sets metadata.resourceVersion of `obj`.

        An update that changes nothing is not written, and the version stays the same.

        Raises:
            Missing: the object does not exist.
            VersionConflict: the object is not at the version `expected`.
        """
        old = self._expect(key, expected)
        unchanged = Stored.of(key, old.version, obj)
        # An equal object with another field order has the same length.
        if len(unchanged.data) == len(old.data) and (unchanged.data == old.data or equal(obj, old.decode())):
            return old
        new = Stored.of(key, self.version + 1, obj)
        self._commit(Change(new.version, key, old, new))
        return new

    def delete(self, key: Key, *, expected: int | None = None) -> Stored:
        """Remove an object; return its last state at the delete's version. Raises the errors of `update`."""
        old = self._expect(key, expected)
        final = Stored.of(key, self.version + 1, old.decode())
        self._commit(Change(final.version, key, old, None, final))
        return final

    async def durable(self, version: int) -> None:
        """Wait until the journal has written this version; raise JournalFailed if it cannot.

        Without a journal, return immediately.
        """
        if self._journal is not None:
            await self._journal.durable(version)

    async def settled(self, version: int) -> None:
        """Wait until `version` would survive a kill of the process; only then may clients see it.

        Otherwise, clients could see a write that the server loses in a restart. If the journal is broken,
        this method returns, so that reads continue; they also show the writes that the journal lacks.
        """
        with contextlib.suppress(JournalFailed):
            await self.durable(version)

    # Watching

    def watch(self, group: str, plural: str, namespace: str = "", *, since: int | None = None) -> Watch:
        """Watch the changes after the version `since` (None: from now on); raise Expired if it is too old."""
        watches = self._watches[group, plural]
        watch = Watch(
            namespace=namespace,
            limit=self._backlog,
            limit_bytes=self._backlog_bytes,
            closed=watches.remove,
        )
        if since is not None:
            earlier = self._history.since(since)
            watch.replay(change for change in earlier if change.key[:2] == (group, plural))
        watches.append(watch)
        return watch

    def subscribe(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call `callback` after each change of the store; return a function that ends the subscription.

        The callback must not raise, and must not write to the store.
        """
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    @property
    def oldest(self) -> int:
        """Earliest version from which a watch can start."""
        return self._history.oldest

    def expire_history(self) -> None:
        """Drop the history, as a compaction of etcd does."""
        self._history.expire()

    def _expect(self, key: Key, expected: int | None) -> Stored:
        old = self.get(key)
        if old is None:
            raise Missing
        if expected is not None and expected != old.version:
            raise VersionConflict
        return old

    def _commit(self, change: Change) -> None:
        key, table = change.key, self._tables[change.key[:2]]
        if change.new is None:
            table.remove(path_of(key))
        else:
            table.put(path_of(key), change.new)
        self.version = change.version
        self._history.add(change)
        if self._journal is not None:
            self._journal.write(change)
        for callback in tuple(self._subscribers):
            callback(change)
        for watch in self._watches.get(key[:2], ()):
            watch.push(change)
