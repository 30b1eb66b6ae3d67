"""Counters and histograms that are cheap to record in.

Those of prometheus_client take a lock for every number, of which a reconcile records some twenty. All
recording here is done by the thread of the event loop, which also answers the scrape, so none is needed.
Labels, registration and exposition are the library's.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import prometheus_client
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Counter", "Histogram"]

_bound: Callable[[float], str] = floatToGoString


class Counter(prometheus_client.Counter):
    """Counts in the event loop's thread, and nowhere else."""

    def _metric_init(self) -> None:
        self._count = 0.0

    def inc(self, amount: float = 1) -> None:  # type: ignore[override]  # no exemplars
        """Count up; `amount` is not negative."""
        self._count += amount

    def _child_samples(self) -> Iterable[Sample]:
        return (Sample("_total", {}, self._count, None, None),)


class Histogram(prometheus_client.Histogram):
    """Counts in buckets, in the event loop's thread and nowhere else."""

    def _metric_init(self) -> None:
        self._counts = [0] * len(self._upper_bounds)
        self._total = 0.0

    def observe(self, amount: float) -> None:  # type: ignore[override]  # no exemplars
        """Count `amount` in the first bucket whose upper bound it does not exceed."""
        self._counts[bisect_left(self._upper_bounds, amount)] += 1
        self._total += amount

    def _child_samples(self) -> Iterable[Sample]:
        count = 0
        for bound, within in zip(self._upper_bounds, self._counts, strict=True):
            count += within
            yield Sample("_bucket", {"le": _bound(bound)}, count, None, None)
        yield Sample("_count", {}, count, None, None)
        yield Sample("_sum", {}, self._total, None, None)
