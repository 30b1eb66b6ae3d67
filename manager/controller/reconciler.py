"""The interface of reconcilers: requests, results, and the options of their controllers."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Protocol

from manager.api import ObjectKey

Request = ObjectKey
"""The key of the object to reconcile, without a reason."""


class Priority(IntEnum):
    """The priority of a request: higher ones go first, equal ones in order of arrival.

    There are only three, so that a metric with priorities as labels stays small.
    """

    LOW = -100
    """For requests that can wait, such as the content of a cache at the start, and resyncs."""

    NORMAL = 0
    """For changes."""

    HIGH = 100
    """For requests that are more urgent than a change, such as those of people."""


@dataclass(frozen=True, slots=True)
class Result:
    """The time of the next reconcile of the same object. No result (None) means: when something changes.

        return Result(requeue_after=60)                # in a minute
        return Result(requeue_after=60, jitter=0.1)    # in 60 to 66 seconds, different for each object
        return Result(requeue=True)                    # soon, and later each time

    A change in the meantime triggers an earlier reconcile, whose result then replaces this one.
    """

    requeue_after: float | None = None
    """Seconds until the next reconcile; it resets the back-off.

    Zero or less counts as `requeue`, so that a wrong clock does not cause a busy loop.
    """

    requeue: bool = False
    """Reconcile again soon, with the same growing back-off as after errors."""

    priority: Priority | None = None
    """The priority of the next reconcile. Default: the current one."""

    jitter: float = 0.0
    """A random addition of up to this fraction of `requeue_after`, so that objects that were requeued
    together, as after a start, are not reconciled together again.
    """

    def __post_init__(self) -> None:
        if self.requeue_after is not None and not math.isfinite(self.requeue_after):
            raise ValueError(f"requeue_after must be a number of seconds, not {self.requeue_after}")
        if not 0 <= self.jitter < math.inf or (self.jitter and self.requeue_after is None):
            raise ValueError(f"jitter must be a fraction of requeue_after, not {self.jitter}")


class TerminalError(Exception):
    """The exception for failures that no retry can solve, only a change of the object.

    The request counts as failed and is dropped. Most other exceptions are retried (see `Controller`).
    """


class Reconciler(Protocol):
    """A reconciler of one object.

    A method `failed(request, error)`, if there is one, reports failures on the object, including time-outs.
    The method is called within the same reconcile, and has five seconds. Its own exceptions are logged at
    level debug.
    """

    async def reconcile(self, request: Request) -> Result | None:
        """Check the object and add what is missing; the result None means done until something changes.

        It is called any number of times, but never concurrently for one object; the object may be gone.
        Exceptions are counted, logged and, except `TerminalError`, retried with back-off. Do not suppress
        `asyncio.CancelledError`: time-outs and the end of the process use it.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """The options of a controller's queue and workers. All durations are in seconds.

    These are the program's defaults. A flag overrides an environment variable, which overrides the
    configuration file, which overrides the default.
    """

    max_concurrent_reconciles: int = 8
    """The number of objects that are reconciled concurrently; each has at most one reconcile at a time.

    A reconcile mostly waits for the API server, which costs nothing here. Eight reconciles keep a small API
    server busy. Many more would only wait in the server's queue instead of ours, in which a new change could
    overtake them.
    """

    reconcile_timeout: float | None = 300.0
    """The time after which a reconcile is cancelled, counted and retried; None for never.

    Every request has its own, much shorter deadline: this limit is for code that hangs elsewhere, and would
    block its worker forever. Split a longer reconcile with `requeue_after`.
    """

    rate_limit: float | None = None
    """Maximum number of reconciles per second, with bursts of one second's worth; None for no limit.

    Use it if each reconcile costs money or quota elsewhere. If the limit is too low, the queue grows without
    end.
    """

    max_concurrent_rollouts: int | None = None
    """The number of objects that may replace pods at once because of another version or other settings of the
    program; None for no limit.

    The next object is updated when the Deployments, StatefulSets and DaemonSets of one object are rolled out
    and available. If that never happens, the others are not updated. A change of an object's spec does not
    wait.
    """

    backoff_base: float = 0.005
    """The delay after an object's first failure; it doubles after each further one."""

    backoff_cap: float = 1000.0
    """The longest delay between two attempts for an object that keeps failing."""

    resync_period: float | None = 36_000.0
    """Reconcile every object once in this period, by default ten hours, at low priority; None for never.

    Watches miss nothing. The resync is for effects that no watch reports, such as those outside of the
    cluster, and for bugs of a program that forgets an object. The period has jitter, and a resync is spread
    over a tenth of it.
    """

    needs_leader_election: bool = True
    """Run only in the leader. Use False only for reconcilers without shared writes: several replicas run them
    concurrently.
    """

    def __post_init__(self) -> None:
        """Check the values; raises an error that names the invalid option."""
        for each in fields(self):
            value, takes = getattr(self, each.name), str(each.type).removesuffix(" | None")
            if value is None and takes != each.type:
                continue
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            expected, valid = {
                "bool": ("True or False", isinstance(value, bool)),
                "int": ("a whole number above 0", is_number and isinstance(value, int) and value > 0),
                "float": ("a finite number above 0", is_number and 0 < value < math.inf),
            }[takes]
            if not valid:
                alternative = "" if takes == each.type else ", or None"
                error = ValueError if is_number and takes != "bool" else TypeError
                raise error(f"{each.name} takes {expected}{alternative}, not {value!r}")
        if not 0 < self.backoff_base <= self.backoff_cap:
            bounds = f"{self.backoff_base} with backoff_cap {self.backoff_cap}"
            raise ValueError(f"backoff_base must be above 0 and at most backoff_cap, not {bounds}")
