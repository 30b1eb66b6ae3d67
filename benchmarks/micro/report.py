"""Tables of figures for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.micro.figures import Middle, micros, ratio
from benchmarks.table import table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.micro.baseline import Change
    from benchmarks.micro.benchmark import Benchmark
    from benchmarks.micro.sampling import Samples


def figure_table(benchmarks: Sequence[Benchmark], found: Mapping[str, Samples]) -> str:
    """Return a line per comparison, and per benchmark that only others are compared with."""
    lines: list[tuple[str, str, str, str, str]] = []
    for benchmark in benchmarks:
        samples = found[benchmark.name]
        each = _micros(micros(samples))
        if not benchmark.against:
            lines.append((benchmark.name, each, "", "", ""))
        name = benchmark.name
        for other in benchmark.against:
            times = ratio(samples, found[other])
            lines.append((name, each, f"{times.value:.2f}", f"±{times.spread:.0%}", other))
            name = each = ""  # shown in the first line only
    return table(["", "µs each", "times", "spread", "as much as"], lines)


def list_of(benchmarks: Sequence[Benchmark]) -> str:
    """Return a line per benchmark, with a description of its unit."""
    width = max(len(benchmark.name) for benchmark in benchmarks)
    return "\n".join(f"{benchmark.name:{width}}  {benchmark.about}" for benchmark in benchmarks)


def change_table(changes: Mapping[str, Change]) -> str:
    """Return a line per change, the largest first."""
    lines = [
        (name, f"{change.factor:.2f}", f"±{change.doubt:.0%}", _verdict(change))
        for name, change in sorted(changes.items(), key=lambda item: -item[1].factor)
    ]
    return table(["", "times as much", "in doubt", ""], lines)


def _verdict(change: Change) -> str:
    if change.is_slower:
        return "slower"
    return "faster" if change.is_faster else ""


def _micros(middle: Middle) -> str:
    digits = 3 if middle.value < 1 else 2 if middle.value < 100 else 0
    return f"{middle.value:.{digits}f}"
