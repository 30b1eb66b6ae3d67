"""What the cache tells those who subscribed, and which of it a reconcile has brought about itself."""

from __future__ import annotations

import enum
from contextvars import ContextVar
from typing import NamedTuple
from weakref import ref

from manager.api import ObjectKey
from manager.cache.record import Meta, Record


class Change(NamedTuple):
    """One step in the life of an object.

    Attributes:
        uid: the object's.
        before: the version that it had; 0 when it was not there.
        after: the version that it has now.
    """

    uid: str
    before: int
    after: int


class EventType(enum.Enum):
    """What became of an object, named as in a watch."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class CacheEvent:
    """One change of the cache, told once, after the cache shows it.

    Attributes:
        old: the record before; None for ADDED.
        new: the record after; None for DELETED.
        initial: the object was there before anyone watched: it comes from the first list, or is replayed
            to a late subscriber.
        handed_over: the object is there, and is not ours to know any more (see `Informer.restrict`).
        received: the event loop's time at which the change reached this process.
        reconciling: the controller that judges the event is reconciling the object, so the change may be its
            own. Set by the source of the controller's own kind.
    """

    __slots__ = ("_meta", "_old_meta", "handed_over", "initial", "new", "old", "received", "reconciling")

    def __init__(
        self,
        old: Record | None,
        new: Record | None,
        *,
        meta: Meta | None = None,
        old_meta: Meta | None = None,
        initial: bool = False,
        handed_over: bool = False,
        received: float = 0.0,
    ) -> None:
        self.old = old
        self.new = new
        self.initial = initial
        self.handed_over = handed_over
        self.received = received
        self.reconciling = False
        self._meta = meta
        self._old_meta = old_meta

    @property
    def type(self) -> EventType:
        """ADDED, MODIFIED or DELETED."""
        if self.old is None:
            return EventType.ADDED
        return EventType.DELETED if self.new is None else EventType.MODIFIED

    @property
    def record(self) -> Record:
        """The object as it is now, or as it was last when it is gone."""
        record = self.new or self.old
        assert record is not None
        return record

    @property
    def key(self) -> ObjectKey:
        """What names the object among those of its kind."""
        return self.record.key

    @property
    def change(self) -> Change | None:
        """What names this step of the object's life, whichever way it became known; None when it is gone."""
        new, old = self.new, self.old
        return None if new is None else Change(new.uid, 0 if old is None else old.version, new.version)

    @property
    def meta(self) -> Meta:
        """The metadata of `record`."""
        if self._meta is None:
            self._meta = self.record.meta()
        return self._meta

    @property
    def old_meta(self) -> Meta | None:
        """The metadata of `old`, decoded when it is first asked for; None for ADDED."""
        if self._old_meta is None and self.old is not None:
            self._old_meta = self.old.meta()
        return self._old_meta

    @property
    def is_cut(self) -> bool:
        """Whether of the object, as it is or as it was, only metadata is known."""
        return any(each is not None and each.is_cut for each in (self.old, self.new))

    def __repr__(self) -> str:
        return f"<{self.type.value} {self.key} {self.record.version}{' initial' if self.initial else ''}>"


# Weakly: a task that a reconcile has started and left behind would add to it for as long as it runs.
_current: ContextVar[ref[set[Change]] | None] = ContextVar("own_writes", default=None)


def own_writes_from_here() -> set[Change]:
    """Collect what the calling task writes from now on, and the tasks that it starts, in the set returned.

    Only a write of which the server has said that there was nothing between `before` and `after` gets in: a
    create, and one that demanded a version. Any other may have met a change of somebody else on its way,
    which nobody here has seen before. It ends when the caller drops the set.
    """
    changes: set[Change] = set()
    _current.set(ref(changes))
    return changes


def note_own_write(change: Change) -> None:
    """Add to what the calling task collects, if it does."""
    current = _current.get()
    changes = None if current is None else current()
    if changes is not None:
        changes.add(change)
