"""What a reconcile has written itself, so that its own doing can be told from that of others."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple
from weakref import ref

__all__ = ["Change", "note_own_write", "own_writes_from_here"]


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
