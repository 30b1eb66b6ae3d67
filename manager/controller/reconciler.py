"""What an operator implements, what it is asked, and what it answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from manager.api import ObjectKey

Request = ObjectKey
"""The key of the object to reconcile; it says nothing about what happened, only where to look."""


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


@dataclass(frozen=True, slots=True)
class Result:
    """When to call the reconciler again for the same object. No result (None) means: when something changes.

        return Result(requeue_after=60)                # in a minute
        return Result(requeue_after=60, jitter=0.1)    # in 60 to 66 seconds, so that not all come at once
        return Result(requeue=True)                    # soon, and later each time

    A change in the meantime calls it earlier, and that call's answer then counts instead.
    """

    requeue_after: float | None = None
    """Seconds until the next call, which starts the back-off afresh. A moment that has passed already (zero
    or less) counts as `requeue`: a wrong clock then costs a few calls and not a processor."""

    requeue: bool = False
    """Call again soon, with the back-off growing from call to call as it does after errors."""

    priority: Priority | None = None
    """The priority of that call. Default: as this one."""

    jitter: float = 0.0
    """Up to this part of `requeue_after` is added to it, at random: what was asked for at the same moment, as
    all objects are after a start, does not come back at the same moment for ever."""

    def __post_init__(self) -> None:
        if self.requeue_after is not None and not math.isfinite(self.requeue_after):
            raise ValueError(f"requeue_after must be a number of seconds, not {self.requeue_after}")
        if not 0 <= self.jitter < math.inf or (self.jitter and self.requeue_after is None):
            raise ValueError(f"jitter must be a part of requeue_after, not {self.jitter}")


class TerminalError(Exception):
    """No retry can mend this; only a change of the object can.

    The request is counted as failed and dropped. Any other exception is retried with back-off.
    """


class Reconciler(Protocol):
    """Brings one object's part of the world to the state it asks for."""

    async def reconcile(self, request: Request) -> Result | None:
        """Look at the object and do what is missing; None means done until something changes.

        It is called for any reason and any number of times, never twice at once for one object, and has
        to find out by itself what there is to do; the object may be gone. What it raises is counted, logged
        and retried with back-off; `TerminalError` is not retried. It must not swallow
        `asyncio.CancelledError`: that is how a time-out and the end of the process reach it.
        """
