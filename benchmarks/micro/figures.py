"""Figures from samples: medians, because disturbances only make samples longer, and spreads."""

from __future__ import annotations

import dataclasses
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.micro.sampling import Samples


@dataclasses.dataclass(frozen=True, slots=True)
class Middle:
    """A median, and how far the middle half of the values is from it: 0.1 is 10 % to either side."""

    value: float
    spread: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Middle:
        """Return the median and the spread of one or more positive values."""
        middle = statistics.median(values)
        if len(values) == 1:
            return cls(middle, 0.0)
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(middle, (high - low) / 2 / middle)


def micros(samples: Samples) -> Middle:
    """Return the CPU microseconds per unit, on this machine at this time."""
    return Middle.of([seconds * 1e6 for seconds in samples.seconds])


def cost(samples: Samples) -> Middle:
    """Return a unit's cost in millionths of the reference, comparable with runs on other days."""
    pairs = zip(samples.seconds, samples.references, strict=True)
    return Middle.of([seconds / reference * 1e6 for seconds, reference in pairs])


def ratio(samples: Samples, other: Samples) -> Middle:
    """Return the ratio to `other`, which was measured in the same rounds."""
    return Middle.of([mine / its for mine, its in zip(samples.seconds, other.seconds, strict=True)])
