"""When to ask a store again that did not answer for a Pet."""

from __future__ import annotations

import random

from manager.backoff import ExponentialDelay
from manager.controller import Request

__all__ = ["Retries"]


class Retries:
    """Counts for each Pet how often in a row the store failed it.

    The queue's own back-off is for what is over in milliseconds, as a conflict is; a store that is down stays
    so for seconds at least, and calls that end by their deadline hold up the others.
    """

    def __init__(self, *, rng: random.Random) -> None:
        self._delay = ExponentialDelay(base=0.5, cap=30.0, rng=rng)
        self._failures: dict[Request, int] = {}

    def next(self, request: Request) -> float:
        """Count a failure; answers the seconds to wait: half a second at first, half a minute at last."""
        failures = self._failures.get(request, 0)
        self._failures[request] = failures + 1
        return self._delay(failures)

    def forget(self, request: Request) -> None:
        """It worked, or the Pet is gone."""
        self._failures.pop(request, None)
