"""What a reconciler answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from manager.controller.priority import Priority

__all__ = ["Result"]


@dataclass(frozen=True, slots=True)
class Result:
    """When to call the reconciler again for the same object. No result (None) means: when something changes.

    A change in the meantime calls it earlier, and that call's answer then counts instead.
    """

    requeue_after: float | None = None
    """Seconds until the next call, which starts the back-off afresh. A moment that has passed already (zero
    or less) counts as `requeue`: a wrong clock then costs a few calls and not a processor."""

    requeue: bool = False
    """Call again soon, with the back-off growing from call to call as it does after errors."""

    priority: Priority | None = None
    """The priority of that call. Default: as this one."""

    def __post_init__(self) -> None:
        if self.requeue_after is not None and not math.isfinite(self.requeue_after):
            raise ValueError(f"requeue_after must be a number of seconds, not {self.requeue_after}")
