"""The parts of the benchmarks, and the figures of each part in the order of its table."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

__all__ = ["LONG", "PARTS", "WORKED", "Figure", "Group", "Part", "Sizes"]


# At these rates of new objects per second no program falls behind; latency is measured for longer.
LONG = (50, 100)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of all workloads; docs/benchmarks/ has results with the default sizes."""

    objects: int = 2_000
    rates: tuple[int, ...] = (50, 100, 300)
    long_seconds: float = 30.0
    """Seconds at each rate of `LONG`."""
    seconds: float = 2.0
    """Seconds at each other rate, which is more than this machine can process."""
    pods: int = 50_000
    few: int = 100
    many: int = 10_000
    others: int = 50_000
    """The number of Deployments with other owners."""
    among: int = 500
    """The number of our finished objects among the other Deployments."""
    own: int = 50_000
    """The number of our finished objects for a start without changes, and for a change of all objects."""
    changes: int = 100
    """The number of changes, one after the other, among `few` and among `many` objects."""
    quiet_seconds: int = 12
    """Seconds of steady state in each round."""
    settle: float = 1.5
    """Seconds without load before a program's memory is read."""

    def seconds_of(self, rate: int) -> float:
        """Return the seconds for which objects are created at this rate."""
        return self.long_seconds if rate in LONG else self.seconds

    def as_json(self) -> dict[str, Any]:
        """Return the sizes as JSON, for the results file."""
        return {**dataclasses.asdict(self), "rates": list(self.rates)}


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A column of a table."""

    key: str
    heading: str


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Rows of a table, measured under the same conditions; the keys of their figures begin with `key`."""

    key: str
    label: str

    def of(self, figure: Figure) -> str:
        """Return the key of this group's figure in a sample."""
        return f"{self.key}.{figure.key}" if self.key else figure.key


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A part of the benchmarks, with its own section in the report."""

    key: str
    title: str
    figures: tuple[Figure, ...]
    groups: tuple[Group, ...]


# The groups of part `memory` in which the program runs the Memcached operator.
WORKED = ("idle", "objects")
_READ = tomllib.loads(Path(__file__).with_name("parts.toml").read_text(encoding="utf-8"))
PARTS: dict[str, Part] = {
    key: Part(
        key,
        part["title"],
        tuple(Figure(*each) for each in part["figures"]),
        tuple(Group(*each) for each in part.get("groups", [["", ""]])),
    )
    for key, part in _READ.items()
}
