"""Summaries of the figures of several rounds, for the tables."""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import TYPE_CHECKING

from benchmarks.results import pace_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.results import Results

__all__ = ["STEADY", "Summary", "failure", "median", "quantile", "requests", "summarize"]

STEADY = 1.15
"""The largest ratio between two durations of the same work, minutes apart, on a steady machine."""


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """The median, minimum and maximum of a peer's figure over all rounds."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        """Summarize the values of a figure; there must be at least one."""
        return cls(statistics.median(values), min(values), max(values), len(values))


def quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


def summarize(results: Results, part: str, peer: str, figure: str) -> Summary | None:
    """Summarize a figure over the rounds; return None if no round has the figure.

    If the figure depends on the machine's speed, only those rounds count in which the machine was almost as
    fast as in the peer's fastest round.
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


def median(results: Results, part: str, peer: str, figure: str) -> float | None:
    summary = summarize(results, part, peer, figure)
    return None if summary is None else summary.median


def failure(results: Results, part: str, peer: str, group: str = "") -> str | None:
    for sample in results.samples.get(part, ()):
        if sample.peer == peer:
            for key in (group, ""):
                if key in sample.failed:
                    return sample.failed[key]
    return None


def requests(results: Results, part: str, peer: str) -> dict[str, float]:
    """Return the median number of requests of each kind; a round without such requests counts as 0."""
    samples = [each for each in results.samples.get(part, ()) if each.peer == peer and each.requests]
    names = sorted({name for each in samples for name in each.requests})
    return {name: statistics.median(each.requests.get(name, 0) for each in samples) for name in names}
