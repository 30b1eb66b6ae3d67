"""The results of measurements, and their file format."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any, Self

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

__all__ = ["PACE", "Recorder", "Results", "Run", "Sample", "pace_of"]

PACE = "pace_ms"
"""The figure with the machine's speed (`benchmarks.machine.Pace`)."""
# Figures that a slower machine makes worse, by the last part of their keys. The seconds of a takeover depend
# on Leases instead, and a backlog has only one round.
_TIMED = {
    *("rate", "reached", "behind", "idle", "cpu_ms", "cpu_s", "server_cpu_ms"),
    *("p50_ms", "p90_ms", "p99_ms", "ms", "ready_s", "first_s", "sync_s", "quiet_s"),
}


@dataclasses.dataclass(slots=True, kw_only=True)
class Run:
    """A run of some or all parts of the benchmarks."""

    date: str
    """The start of the run in UTC: "2026-11-21 20:20"."""
    minutes: float = 0.0
    rounds: int
    machine: dict[str, str]
    versions: dict[str, str]
    """The version of each peer, in the order of the tables."""
    about: dict[str, str]
    """A description of each peer."""
    left_out: dict[str, str]
    """The peers that could not be measured, with the reasons."""
    lacks: dict[str, dict[str, str]]
    """The parts and workloads that each peer skips, with the reasons."""
    sizes: dict[str, Any]
    cut: list[str] = dataclasses.field(default_factory=list)
    """A line for each step that was skipped because the time ran out."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Sample:
    """The figures of one measured program (peer) in one round of a part of the benchmarks."""

    peer: str
    round: int
    figures: dict[str, float] = dataclasses.field(default_factory=dict)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    """The reason why a group ("" for the whole part) has no figures."""
    requests: dict[str, int] = dataclasses.field(default_factory=dict)
    """The number of requests by verb, resource and code, if counted."""


@dataclasses.dataclass(slots=True)
class Results:
    """The figures of each part of the benchmarks, with the run in which the part was measured."""

    runs: dict[str, Run] = dataclasses.field(default_factory=dict)
    """The runs by date."""
    of_run: dict[str, str] = dataclasses.field(default_factory=dict)
    """The date of the run from which each part comes."""
    samples: dict[str, list[Sample]] = dataclasses.field(default_factory=dict)

    @classmethod
    def begin(cls, run: Run, parts: Iterable[str]) -> Self:
        """Return empty results for a new run of some parts of the benchmarks."""
        keys = list(parts)
        return cls({run.date: run}, dict.fromkeys(keys, run.date), {key: [] for key in keys})

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file written by `write`; raise OSError, or ValueError if the format is wrong."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except msgspec.DecodeError as error:
            raise ValueError(f"{path} has no results of this suite: {error}") from None

    def write(self, path: Path) -> None:
        """Write a file atomically: a concurrent reader gets the old or the new content."""
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(path.name + ".new")
        scratch.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
        scratch.replace(path)

    def merged_with(self, newer: Results) -> Results:
        """Return results with all parts of `newer`, and from `self` the parts that `newer` does not have."""
        of_run = {**self.of_run, **newer.of_run}
        runs = {**self.runs, **newer.runs}
        return Results(
            {date: run for date, run in runs.items() if date in of_run.values()},
            of_run,
            {**self.samples, **newer.samples},
        )

    def run_of(self, part: str) -> Run:
        """Return the run in which a part was measured."""
        return self.runs[self.of_run[part]]

    def rounds_of(self, part: str) -> int:
        """Return the number of rounds with figures of a part; a figure may be missing in some of them."""
        return len({each.round for each in self.samples[part] if each.figures})

    def sample(self, part: str, peer: str, number: int) -> Sample:
        """Return the sample of a peer and round; create it if it is missing."""
        for each in self.samples[part]:
            if (each.peer, each.round) == (peer, number):
                return each
        self.samples[part].append(Sample(peer=peer, round=number))
        return self.samples[part][-1]


class Recorder:
    """A thread-safe recorder of one peer's figures in the chosen parts."""

    def __init__(
        self,
        results: Results,
        peer: str,
        *,
        lacks: Iterable[str] = (),
        pace: Callable[[], float] | None = None,
    ) -> None:
        """Set up the recorder for the figures of one peer.

        Figures of the parts in `lacks`, which the peer skips, are dropped. `pace` returns the
        machine's speed, which is recorded together with the figures that depend on it.
        """
        self._results = results
        self._parts = set(results.samples) - set(lacks)
        self._peer = peer
        self._lock = threading.Lock()
        self._pace = pace

    def record(
        self,
        part: str,
        number: int,
        figures: Mapping[str, float],
        *,
        group: str = "",
        requests: Mapping[str, int] | None = None,
    ) -> None:
        """Record the figures of a part and a round, unless the peer lacks the part."""
        if part not in self._parts:
            return
        # Figures that do not depend on the pace skip this: measuring the pace would disturb other
        # measurements.
        if self._pace and any(map(pace_of, figures)):
            figures = {**figures, PACE: self._pace()}
        with self._lock:
            sample = self._results.sample(part, self._peer, number)
            prefix = f"{group}." if group else ""
            sample.figures.update({f"{prefix}{key}": value for key, value in figures.items()})
            sample.requests.update(requests or {})

    def fail(self, part: str, number: int, reason: str, *, group: str = "") -> None:
        """Record the reason why a round has no figures."""
        if part not in self._parts:
            return
        with self._lock:
            self._results.sample(part, self._peer, number).failed[group] = reason


def pace_of(figure: str) -> str | None:
    """Return the key of the machine's speed for a figure; None if the figure does not depend on the speed."""
    group, dot, key = figure.rpartition(".")
    return f"{group}{dot}{PACE}" if key in _TIMED or key == PACE else None
