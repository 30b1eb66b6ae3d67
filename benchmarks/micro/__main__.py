"""See the package's docstring."""

from __future__ import annotations

import argparse
import asyncio
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import benchmarks.micro
from benchmarks.micro.baseline import BadBaseline, Baseline, changes
from benchmarks.micro.catalogue import SUITES
from benchmarks.micro.figures import Middle, cost
from benchmarks.micro.report import change_table, figure_table, list_of
from benchmarks.micro.sampling import measure, repeat
from manager.util.garbage import tune_garbage_collector
from manager.util.loop import loop_factory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.micro.benchmark import Benchmark
    from benchmarks.micro.sampling import Samples

ROUNDS = 9


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; return exit code 1 if one is certainly slower than the baseline."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        suites = select(options.names)
        baseline = Baseline.load(options.against) if options.against else None
    except (LookupError, BadBaseline) as error:
        parser.error(str(error.args[0]))
    if options.list:
        print(list_of([each for suite in suites for each in suite]))
        return 0
    tune_garbage_collector()
    if options.calls:
        for suite in suites:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(repeat(suite, options.calls))
        return 0
    found = measure_all(suites, options.rounds)
    print(figure_table([each for suite in suites for each in suite], found))
    code = 0
    if baseline is not None:
        code = _compare(baseline, suites, found, options.rounds)
    if options.save:
        Baseline.now(_costs(found)).save(options.save)
    return code


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


def measure_all(suites: Sequence[Sequence[Benchmark]], rounds: int) -> dict[str, Samples]:
    """Measure one suite after the other; return the samples by name."""
    found: dict[str, Samples] = {}
    for suite in suites:
        print(f"measuring {', '.join(each.name for each in suite)}", file=sys.stderr)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            found |= runner.run(measure(suite, rounds))
    return found


def _compare(
    baseline: Baseline, suites: Sequence[Sequence[Benchmark]], found: dict[str, Samples], rounds: int
) -> int:
    """Print the changes; a benchmark that seems slower is measured again before it counts as slower."""
    slower = {name for name, change in changes(baseline, _costs(found)).items() if change.is_slower}
    if slower:
        again = [[each for each in suite if each.name in slower] for suite in suites]
        for name, samples in measure_all(list(filter(None, again)), 2 * rounds).items():
            if cost(samples).value < cost(found[name]).value:
                found[name] = samples
    now = Baseline.now(_costs(found))
    found_changes = changes(baseline, now.costs)
    for other in baseline.other_versions(now):
        print(f"note: {other}")
    if missing := sorted(now.costs.keys() - baseline.costs.keys()):
        print(f"note: the baseline does not have {', '.join(missing)}")
    print(change_table(found_changes))
    return int(any(change.is_slower for change in found_changes.values()))


def _costs(found: Mapping[str, Samples]) -> dict[str, Middle]:
    return {name: cost(samples) for name, samples in found.items()}


def _is_meant(benchmark: Benchmark, names: Sequence[str]) -> bool:
    return any(fnmatchcase(benchmark.name, name) for name in names)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.micro",
        description=benchmarks.micro.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="a suite, a benchmark, or a pattern; all without"
    )
    parser.add_argument("--list", action="store_true", help="say what there is, and measure nothing")
    parser.add_argument("--rounds", type=_rounds, default=ROUNDS, help="samples of each (%(default)s)")
    parser.add_argument(
        "--calls", type=_rounds, metavar="N", help="do the work so often, and measure nothing: for a profiler"
    )
    parser.add_argument("--save", type=_writable, metavar="FILE", help="keep the figures, for --against")
    parser.add_argument(
        "--against", type=Path, metavar="FILE", help="compare with kept figures; exit code 1 if slower"
    )
    return parser


def _writable(text: str) -> Path:
    path = Path(text)
    try:
        path.touch()  # fail here, and not after a minute of measuring
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error.strerror}") from error
    return path


def _rounds(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
