"""The parts of the suite, and their figures as tables show them."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

__all__ = ["LONG", "PARTS", "WORKED", "Figure", "Group", "Part", "Sizes"]


# Rates of new objects per second that every program keeps up with; latency is measured for longer.
LONG = (50, 100)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of all workloads; the defaults are the page's."""

    objects: int = 2_000
    rates: tuple[int, ...] = (50, 100, 300)
    long_seconds: float = 30.0
    """Seconds at each rate in `LONG`."""
    seconds: float = 2.0
    """Seconds at each other rate, which exceeds what this machine can do."""
    pods: int = 50_000
    few: int = 100
    many: int = 10_000
    others: int = 50_000
    """Deployments with other owners."""
    among: int = 500
    """Finished objects of ours among them."""
    own: int = 50_000
    """Finished objects of ours in a start with nothing to do, and in a change of all of them."""
    changes: int = 100
    """Made one after the other, each among `few` and among `many`."""
    quiet_seconds: int = 12
    """Seconds of steady state in each round."""
    settle: float = 1.5
    """Seconds without load before a program's memory is read."""

    def seconds_of(self, rate: int) -> float:
        """Return the seconds for which objects are created at a rate."""
        return self.long_seconds if rate in LONG else self.seconds

    def as_json(self) -> dict[str, Any]:
        """Return the sizes for a file, and for texts that name them."""
        return {**dataclasses.asdict(self), "rates": list(self.rates)}


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A column."""

    key: str
    heading: str


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Rows under the same conditions; the group's key is the prefix of its figures' keys."""

    key: str
    label: str

    def of(self, figure: Figure) -> str:
        """Return a figure's key in a sample."""
        return f"{self.key}.{figure.key}" if self.key else figure.key


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A part of the suite, and a section of the page."""

    key: str
    title: str
    figures: tuple[Figure, ...]
    groups: tuple[Group, ...]


# The memory of a program that works on Memcacheds.
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
