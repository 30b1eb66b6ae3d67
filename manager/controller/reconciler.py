"""The interface of reconcilers: requests, results, and the options of their controllers."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Protocol

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
    """A reconciler of one object.

    One with a method `failed(request, error)` reports failures on the object, a time-out too. The method is
    called within the same reconcile, and has five seconds. Its own exceptions are logged at level debug.
    """

    async def reconcile(self, request: Request) -> Result | None:
        """Look at the object and do what is missing; None means done until something changes.

        It is called any number of times, but never twice at once for one object; the object may be gone.
        Exceptions are counted, logged and retried with back-off; `TerminalError` is not retried. Do not
        suppress `asyncio.CancelledError`: time-outs and the end of the process use it.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """How a controller works through its queue. All durations are in seconds.

    These are the defaults of the process; flags, environment variables and the configuration file take
    precedence, in this order.
    """

    max_concurrent_reconciles: int = 8
    """How many objects are reconciled at once; never one object twice at once.

    A reconcile mostly waits for the API server, and a waiting one costs nothing here. Eight keep a small API
    server busy. Many more would only wait in the server's queue instead of ours, where a new change could
    overtake them.
    """

    reconcile_timeout: float | None = 300.0
    """When a reconcile is cancelled, counted and retried; None for never.

    Every request has its own, much shorter deadline: this is for what hangs elsewhere, and would occupy its
    worker forever. Split a longer reconcile with `requeue_after`.
    """

    rate_limit: float | None = None
    """Maximum of reconciles per second, with bursts of one second's worth; None for no limit.

    Use it if each reconcile costs money or quota elsewhere. If the limit is too low, the queue grows without
    end.
    """

    max_concurrent_rollouts: int | None = None
    """How many objects may replace pods at once because of another version or other settings of the program;
    None for no limit.

    The next object is updated when the Deployments, StatefulSets and DaemonSets of one are rolled out and
    available. If that never happens, the others stay as they are. A change of an object's spec does not wait.
    """

    backoff_base: float = 0.005
    """Wait after an object's first failure; it doubles with each further one."""

    backoff_cap: float = 1000.0
    """The longest wait between two attempts at an object that keeps failing."""

    resync_period: float | None = 36_000.0
    """Reconcile every object once in this period, by default ten hours, at low priority; None for never.

    Watches miss nothing. This is for what no watch shows, such as effects outside of the cluster, and for
    bugs of a program that forgets an object. The period has jitter, and a resync is spread over a tenth of
    it.
    """

    needs_leader_election: bool = True
    """Run only in the leader. Use False only for reconcilers that write nothing shared: several replicas run
    them at once.
    """

    def __post_init__(self) -> None:
        """Check the values; raises an error that names the option of another type or out of range."""
        for each in fields(self):
            value, takes = getattr(self, each.name), str(each.type).removesuffix(" | None")
            if value is None and takes != each.type:
                continue
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            expected, valid = {
                "bool": ("True or False", isinstance(value, bool)),
                "int": ("a whole number above 0", is_number and isinstance(value, int) and value > 0),
                "float": ("a number above 0", is_number and value > 0),
            }[takes]
            if not valid:
                alternative = "" if takes == each.type else ", or None"
                error = ValueError if is_number and takes != "bool" else TypeError
                raise error(f"{each.name} takes {expected}{alternative}, not {value!r}")
        if not 0 < self.backoff_base <= self.backoff_cap:
            bounds = f"{self.backoff_base} with backoff_cap {self.backoff_cap}"
            raise ValueError(f"backoff_base must be above 0 and at most backoff_cap, not {bounds}")
