"""The interface of reconcilers: requests and results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, runtime_checkable

from manager.api import ObjectKey

Request = ObjectKey
"""The key of the object to reconcile; it does not say what has happened."""


class Priority(IntEnum):
    """The priority of a request: higher ones go first, and equal ones in order of arrival.

    There are only three, so that a metric with them as labels stays small.
    """

    LOW = -100
    """For what can wait: the content of a cache at start, resyncs."""

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
    """Seconds until the next call; it resets the back-off.

    Zero or less counts as `requeue`, so that a wrong clock does not cause a busy loop.
    """

    requeue: bool = False
    """Call again soon, with the same growing back-off as after errors."""

    priority: Priority | None = None
    """The priority of that call. Default: as this one."""

    jitter: float = 0.0
    """Up to this fraction of `requeue_after` is added at random, so that objects that were requeued at the
    same time, as after a start, do not come back at the same time.
    """

    def __post_init__(self) -> None:
        if self.requeue_after is not None and not math.isfinite(self.requeue_after):
            raise ValueError(f"requeue_after must be a number of seconds, not {self.requeue_after}")
        if not 0 <= self.jitter < math.inf or (self.jitter and self.requeue_after is None):
            raise ValueError(f"jitter must be a part of requeue_after, not {self.jitter}")


class TerminalError(Exception):
    """No retry can solve this, only a change of the object.

    The request counts as failed and is dropped. Any other exception is retried with back-off.
    """


class Reconciler(Protocol):
    """A reconciler of one object."""

    async def reconcile(self, request: Request) -> Result | None:
        """Look at the object and do what is missing; None means done until something changes.

        It is called any number of times, but never twice at once for one object; the object may be gone.
        Exceptions are counted, logged and retried with back-off; `TerminalError` is not retried. Do not
        suppress `asyncio.CancelledError`: time-outs and the end of the process use it.
        """


@runtime_checkable
class FailureReporter(Protocol):
    """A reconciler that also reports failures on the object."""

    async def failed(self, request: Request, error: BaseException) -> None:
        """Report that `reconcile` has failed with `error`, also when it ran out of time.

        It is called within the same reconcile, and has five seconds. An exception of its own is logged at
        level debug.
        """
