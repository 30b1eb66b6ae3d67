"""What was measured, as it is kept in a file."""

from __future__ import annotations

import dataclasses
import json
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

__all__ = ["PACE", "Recorder", "Results", "Run", "Sample", "pace_of"]

PACE = "pace_ms"
"""The figure that says how fast the machine was (`benchmarks.machine.Pace`)."""
# Figures that a slower machine makes worse, by the last part of their names. A takeover's seconds are those
# of leases, and a backlog has one round.
_TIMED = {
    *("rate", "reached", "behind", "idle", "cpu_ms", "cpu_s", "server_cpu_ms"),
    *("p50_ms", "p90_ms", "p99_ms", "ms", "ready_s", "first_s", "sync_s", "quiet_s"),
}


@dataclasses.dataclass(slots=True, kw_only=True)
class Run:
    """One run of the suite, whatever parts it had."""

    date: str
    """When it began, in UTC: "2026-11-21 20:20"."""
    minutes: float = 0.0
    rounds: int
    machine: dict[str, str]
    versions: dict[str, str]
    """By peer, in the order of the tables."""
    about: dict[str, str]
    """What each peer is."""
    left_out: dict[str, str]
    """Peers that could not be measured, and why."""
    lacks: dict[str, dict[str, str]]
    """By peer: the parts and workloads that it is not measured in, and why."""
    sizes: dict[str, Any]
    cut: list[str] = dataclasses.field(default_factory=list)
    """What the time did not allow, a line each."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Sample:
    """One peer in one round of one part."""

    peer: str
    round: int
    figures: dict[str, float] = dataclasses.field(default_factory=dict)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    """By group ("": the whole part): why there is no figure."""
    requests: dict[str, int] = dataclasses.field(default_factory=dict)
    """By verb, resource and code, where they are counted."""


@dataclasses.dataclass(slots=True)
class Results:
    """The samples of each part, and the run that each part is of."""

    runs: dict[str, Run] = dataclasses.field(default_factory=dict)
    """By date."""
    of_run: dict[str, str] = dataclasses.field(default_factory=dict)
    """The date of each part's run."""
    samples: dict[str, list[Sample]] = dataclasses.field(default_factory=dict)

    @classmethod
    def begin(cls, run: Run, parts: Iterable[str]) -> Self:
        """Nothing yet of these parts."""
        keys = list(parts)
        return cls({run.date: run}, dict.fromkeys(keys, run.date), {key: [] for key in keys})

    @classmethod
    def read(cls, path: Path) -> Self:
        """From a file that `write` wrote.

        Raises:
            ValueError: it is no such file.
            OSError: it cannot be read.
        """
        data = json.loads(path.read_text())
        try:
            return cls(
                {date: Run(**run) for date, run in data["runs"].items()},
                dict(data["of_run"]),
                {part: [Sample(**each) for each in samples] for part, samples in data["samples"].items()},
            )
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path} has no results of this suite: {error}") from None

    def write(self, path: Path) -> None:
        """To a file; whoever reads it meanwhile sees the old or the new."""
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(path.name + ".new")
        scratch.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")
        scratch.replace(path)

    def merged_with(self, newer: Results) -> Results:
        """The parts of `newer`, and of this one the parts that `newer` has not."""
        of_run = {**self.of_run, **newer.of_run}
        runs = {**self.runs, **newer.runs}
        return Results(
            {date: run for date, run in runs.items() if date in of_run.values()},
            of_run,
            {**self.samples, **newer.samples},
        )

    def run_of(self, part: str) -> Run:
        """The run that a part is of."""
        return self.runs[self.of_run[part]]

    def rounds_of(self, part: str) -> int:
        """In how many something was measured; of single figures it may be fewer."""
        return len({each.round for each in self.samples[part] if each.figures})

    def sample(self, part: str, peer: str, number: int) -> Sample:
        """The one sample of these, made if there is none."""
        for each in self.samples[part]:
            if (each.peer, each.round) == (peer, number):
                return each
        self.samples[part].append(Sample(peer=peer, round=number))
        return self.samples[part][-1]


class Recorder:
    """Takes down what one peer shows, of parts that are asked for; may be called from several threads."""

    def __init__(
        self,
        results: Results,
        peer: str,
        *,
        lacks: Iterable[str] = (),
        pace: Callable[[], float] | None = None,
    ) -> None:
        """`lacks`: the parts that the peer is not measured in, whatever is on the way to others.

        `pace`: how fast the machine is, taken down with figures that it changes.
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
        """Figures of a round."""
        if part not in self._parts:
            return
        # Where it makes no difference, others may be measured at the same time, and would notice.
        if self._pace and any(map(pace_of, figures)):
            figures = {**figures, PACE: self._pace()}
        with self._lock:
            sample = self._results.sample(part, self._peer, number)
            prefix = f"{group}." if group else ""
            sample.figures.update({f"{prefix}{key}": value for key, value in figures.items()})
            sample.requests.update(requests or {})

    def fail(self, part: str, number: int, reason: str, *, group: str = "") -> None:
        """Why there are none."""
        if part not in self._parts:
            return
        with self._lock:
            self._results.sample(part, self._peer, number).failed[group] = reason


def pace_of(figure: str) -> str | None:
    """The name of the machine's pace while a figure was taken; None where it makes no difference."""
    group, dot, key = figure.rpartition(".")
    return f"{group}{dot}{PACE}" if key in _TIMED or key == PACE else None
