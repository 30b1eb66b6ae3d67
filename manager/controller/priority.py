"""How urgent a request is."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Priority"]


class Priority(IntEnum):
    """Requests of a higher priority go first; those of the same one in the order they came.

    There are three and no more, so that a metric labelled by them stays small.
    """

    LOW = -100
    """What can wait: the content of a cache at start, periodic resyncs."""

    NORMAL = 0
    """Something changed."""

    HIGH = 100
    """For operators that have something more urgent than a change."""
