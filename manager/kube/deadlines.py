"""Deadlines for many awaits at once, over one timer: what `asyncio.timeout` does, for a fraction of its cost.

Nearly every request ends long before its deadline, so that arming a timer for each and disarming it
again is all that a deadline ever does. Here the one timer is armed for the earliest deadline, and
left alone when that is kept; when it fires too early, it is armed for the next.
"""

from __future__ import annotations

import asyncio
import math


class Deadline:
    """The deadline of one block of code in one task; made by `Deadlines.start`.

    The block has to be written so, because a context manager would cost more than all the rest:

        deadline = deadlines.start(seconds)
        try:
            ...
        except asyncio.CancelledError:
            if deadline.missed():
                raise SomeError from None
            raise
        finally:
            deadlines.stop(deadline)
    """

    __slots__ = ("_cancelling", "_settled", "expired", "task", "when")

    def __init__(self, when: float, task: asyncio.Task[object]) -> None:
        self.when = when
        self.task = task
        self.expired = False
        self._settled = False
        self._cancelling = task.cancelling()

    def missed(self) -> bool:
        """Whether a cancellation just caught is this deadline's doing, and nobody else's."""
        return self.settle() <= self._cancelling if self.expired else False

    def settle(self) -> int:
        """Take back the cancellation; answers how many are left."""
        if self._settled:
            return self.task.cancelling()
        self._settled = True
        return self.task.uncancel()


class Deadlines:
    """Cancels whoever is still at work when a deadline passes."""

    def __init__(self) -> None:
        self._running: dict[Deadline, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = math.inf

    def start(self, seconds: float) -> Deadline:
        """Begin a block of the current task that has to be over in so many seconds."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        deadline = Deadline(loop.time() + seconds, task)
        self._running[deadline] = None
        if deadline.when < self._armed_for:
            self._arm(loop, deadline.when)
        return deadline

    def stop(self, deadline: Deadline) -> None:
        """End the block."""
        del self._running[deadline]
        if deadline.expired:
            deadline.settle()

    def close(self) -> None:
        """Leave no timer behind, once no block runs any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._armed_for = math.inf

    def _arm(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(when, self._fire, loop)
        self._armed_for = when

    def _fire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        self._armed_for = math.inf
        now = loop.time()
        earliest = math.inf
        for deadline in self._running:
            if deadline.expired:
                continue
            if deadline.when <= now:
                deadline.expired = True
                deadline.task.cancel()
            elif deadline.when < earliest:
                earliest = deadline.when
        if earliest < math.inf:
            self._arm(loop, earliest)
