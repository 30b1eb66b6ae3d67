"""The parts of the suite, and their figures as tables show them."""

from __future__ import annotations

import dataclasses
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
            Figure("idle", "% of the machine left idle"),
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
            Group("five", "idle, all five operators"),
            Group("objects", "{objects:,} objects"),
            Group("pods-metadata", "{pods:,} Pods, metadata"),
            Group("pods", "{pods:,} Pods, whole"),
        ),
    ),
    Part(
        "others",
        "Others' objects of a kind that we own",
        (
            Figure("mb", "MB"),
            Figure("peak_mb", "peak MB"),
            Figure("sync_s", "s to sync"),
            Figure("cpu_s", "CPU s"),
        ),
        (
            Group("memcached", "the operator"),
            Group("deployments-metadata", "a cache of their metadata"),
            Group("deployments", "a cache of all of them, whole"),
        ),
    ),
    Part(
        "done",
        "Start with all done",
        (
            Figure("ready_s", "s to ready"),
            Figure("quiet_s", "s until idle"),
            Figure("cpu_s", "CPU s"),
            Figure("mb", "MB"),
            Figure("peak_mb", "peak MB"),
            Figure("reads", "reads"),
            Figure("writes", "writes"),
        ),
    ),
    Part(
        "backlog",
        "All objects at once",
        (
            Figure("seconds", "s"),
            Figure("first_ms", "ms to the first live change"),
            Figure("worst_ms", "ms, slowest live change"),
            Figure("changes", "live changes"),
            Figure("peak_mb", "peak MB"),
            Figure("lag_ms", "p99 of the loop's lag, ms"),
            Figure("errors", "server errors"),
        ),
        (
            Group("start", "start"),
            Group("relist", "lists anew after 410"),
            Group("rollout", "a new version changes all"),
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
# The memory of a program that works on Memcacheds.
WORKED = ("idle", "objects")
PARTS: dict[str, Part] = {part.key: part for part in _PARTS}
