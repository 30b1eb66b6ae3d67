"""From the samples of several rounds to what a table shows."""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import TYPE_CHECKING

from benchmarks.results import pace_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.results import Results

__all__ = ["STEADY", "Summary", "failure", "quantile", "requests", "summarize"]

STEADY = 1.15
"""So many times as long a steady machine takes at most for the same work from one minute to the next."""


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """One figure of one peer over all rounds."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        """At least one value."""
        return cls(statistics.median(values), min(values), max(values), len(values))


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that `share` of the ordered values do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


def summarize(results: Results, part: str, peer: str, figure: str) -> Summary | None:
    """None when no round has the figure.

    Of what a slower machine makes worse, only the rounds count in which it was about as fast as in the
    peer's best.
    """
    found = [
        sample.figures
        for sample in results.samples.get(part, ())
        if sample.peer == peer and figure in sample.figures
    ]
    pace = pace_of(figure)
    if pace and all(pace in figures for figures in found):
        best = min((figures[pace] for figures in found), default=0.0)
        found = [figures for figures in found if figures[pace] <= STEADY * best]
    return Summary.of([figures[figure] for figures in found]) if found else None


def failure(results: Results, part: str, peer: str, group: str = "") -> str | None:
    """Why a peer has no figures of a part, or of a group of its rows; the first reason of any round."""
    for sample in results.samples.get(part, ()):
        if sample.peer == peer:
            for key in (group, ""):
                if key in sample.failed:
                    return sample.failed[key]
    return None


def requests(results: Results, part: str, peer: str) -> dict[str, float]:
    """The median count of each kind of request; 0 in a round that had none of it."""
    samples = [each for each in results.samples.get(part, ()) if each.peer == peer and each.requests]
    names = sorted({name for each in samples for name in each.requests})
    return {name: statistics.median(each.requests.get(name, 0) for each in samples) for name in names}
