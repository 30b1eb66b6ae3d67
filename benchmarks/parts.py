"""What is measured: the parts of the suite, and the figures of each as tables show them."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

__all__ = ["PARTS", "WORKED", "Figure", "Group", "Part", "Sizes"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of everything; the defaults are those of the page."""

    objects: int = 2_000
    rates: tuple[int, ...] = (50, 100, 200, 300)
    seconds: float = 2.0
    """Of each rate."""
    pods: int = 50_000
    few: int = 100
    many: int = 10_000
    changes: int = 100
    """Made one after the other, each among `few` and among `many`."""
    quiet_seconds: int = 12
    """Of steady state in each round."""
    settle: float = 1.5
    """Seconds for which a program is left alone before its memory is read."""

    def as_json(self) -> dict[str, Any]:
        """As a file keeps them, and texts may name them."""
        return {**dataclasses.asdict(self), "rates": list(self.rates)}

    @classmethod
    def quick(cls) -> Self:
        """Just to see that all works."""
        return cls(
            objects=200, seconds=1, pods=5_000, few=10, many=1_000, changes=10, quiet_seconds=3, settle=1.0
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A column."""

    key: str
    heading: str


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Rows under the same circumstances; its figures' keys begin with its own."""

    key: str
    label: str

    def of(self, figure: Figure) -> str:
        """The key of a figure in a sample."""
        return f"{self.key}.{figure.key}" if self.key else figure.key


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A part of the suite, and a section of the page."""

    key: str
    title: str
    figures: tuple[Figure, ...]
    groups: tuple[Group, ...] = (Group("", ""),)


_PARTS = (
    Part(
        "cold",
        "Cold convergence",
        (
            Figure("rate", "objects/s"),
            Figure("cpu_ms", "CPU ms per object"),
            Figure("cpu_s", "CPU s in all"),
            Figure("server_cpu_ms", "API server's CPU ms per object"),
            Figure("writes", "writes per object"),
            Figure("conflicts", "409s"),
            Figure("events", "Events"),
        ),
    ),
    Part(
        "latency",
        "Live latency",
        (
            Figure("reached", "reached/s"),
            Figure("p50_ms", "p50 ms"),
            Figure("p90_ms", "p90 ms"),
            Figure("p99_ms", "p99 ms"),
            Figure("behind", "waiting at the end"),
        ),
        tuple(Group(f"at_{rate}", f"{rate}/s") for rate in Sizes().rates),
    ),
    Part(
        "memory",
        "Memory",
        (
            Figure("mb", "MB"),
            Figure("peak_mb", "peak MB"),
            Figure("sync_s", "s to sync"),
            Figure("cpu_s", "CPU s"),
        ),
        (
            Group("idle", "idle"),
            Group("objects", "{objects:,} objects"),
            Group("pods-metadata", "{pods:,} Pods, metadata"),
            Group("pods", "{pods:,} Pods, whole"),
        ),
    ),
    Part(
        "steady",
        "Steady state",
        (
            Figure("requests", "requests per minute"),
            Figure("cpu_ms", "CPU ms per minute"),
        ),
    ),
    Part(
        "change",
        "One change",
        (
            Figure("ms", "ms to status"),
            Figure("cpu_ms", "CPU ms"),
            Figure("requests", "requests"),
        ),
        (Group("few", "among {few:,}"), Group("many", "among {many:,}")),
    ),
    Part(
        "takeover",
        "Takeover",
        (Figure("seconds", "s to the first write"),),
        (Group("sigterm", "SIGTERM"), Group("sigkill", "kill -9")),
    ),
    Part(
        "startup",
        "Start",
        (
            Figure("ready_s", "s to ready"),
            Figure("first_s", "s to the first status"),
            Figure("cpu_s", "CPU s"),
        ),
    ),
    Part(
        "ten",
        "Ten controllers on one kind",
        (Figure("watches", "watches"), Figure("mb", "MB")),
    ),
)
# Of memory, what a program holds that works on Memcacheds.
WORKED = ("idle", "objects")
PARTS: dict[str, Part] = {part.key: part for part in _PARTS}
