"""See the package's docstring."""

from __future__ import annotations

import argparse
import asyncio
import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import benchmarks.micro
from benchmarks.micro.sampling import Middle, measure, ratio, repeat
from benchmarks.micro.suites import SUITES
from benchmarks.table import table
from manager.util.garbage import tune_garbage_collector
from manager.util.loop import loop_factory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.micro.sampling import Benchmark

ROUNDS = 9


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.micro",
        description=benchmarks.micro.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="a suite, a benchmark, or a pattern; default: all"
    )
    parser.add_argument("--list", action="store_true", help="list the benchmarks, and measure nothing")
    parser.add_argument("--rounds", type=_positive, default=ROUNDS, help="samples of each (%(default)s)")
    parser.add_argument(
        "--calls",
        type=_positive,
        metavar="N",
        help="do the work N times, and measure nothing: for a profiler",
    )
    options = parser.parse_args(arguments)
    try:
        suites = select(options.names)
    except LookupError as error:
        parser.error(str(error.args[0]))
    every = [each for suite in suites for each in suite]
    if options.list:
        width = max(len(each.name) for each in every)
        print("\n".join(f"{each.name:{width}}  {each.about}" for each in every))
        return 0
    tune_garbage_collector()
    found: dict[str, list[float]] = {}
    for suite in suites:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            if options.calls:
                runner.run(repeat(suite, options.calls))
            else:
                print(f"measuring {', '.join(each.name for each in suite)}", file=sys.stderr)
                found |= runner.run(measure(suite, options.rounds))
    if found:
        print(figures(every, found))
    return 0


def select(names: Sequence[str]) -> list[list[Benchmark]]:
    """Return the selected benchmarks by suite, with those that they are compared with.

    A name is a suite's, a benchmark's, or a pattern with `*`; no names select all. Raises LookupError.
    """
    for name in names:
        if name not in SUITES and not any(
            _is_meant(each, [name]) for suite in SUITES.values() for each in suite
        ):
            raise LookupError(
                f"there is no benchmark {name!r}: --list shows all; suites are {', '.join(SUITES)}"
            )
    chosen = []
    for suite, members in SUITES.items():
        meant = [each for each in members if not names or suite in names or _is_meant(each, names)]
        wanted = {name for each in meant for name in (each.name, *each.against)}
        if wanted:
            chosen.append([each for each in members if each.name in wanted])
    return chosen


def figures(benchmarks: Sequence[Benchmark], found: Mapping[str, Sequence[float]]) -> str:
    """Return a line per comparison, and per benchmark that only others are compared with."""
    lines: list[tuple[str, str, str, str, str]] = []
    for benchmark in benchmarks:
        name, each = benchmark.name, _micros(Middle.of(found[benchmark.name]).value * 1e6)
        if not benchmark.against:
            lines.append((name, each, "", "", ""))
        for other in benchmark.against:
            times = ratio(found[benchmark.name], found[other])
            lines.append((name, each, f"{times.value:.2f}", f"±{times.spread:.0%}", other))
            name = each = ""  # shown in the first line only
    return table(["", "µs each", "times", "spread", "as much as"], lines)


def _micros(value: float) -> str:
    digits = 3 if value < 1 else 2 if value < 100 else 0
    return f"{value:.{digits}f}"


def _is_meant(benchmark: Benchmark, names: Sequence[str]) -> bool:
    return any(fnmatchcase(benchmark.name, name) for name in names)


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
