"""The command `simulate`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from manager.cli.arguments import file_flag
from manager.cli.commands import Invocation, pass_invocation
from manager.cli.generating import declared_definitions
from manager.codegen.manifest import UNPLACED
from manager.shards.ranges import parse_count
from manager.small_file import read_small_file

if TYPE_CHECKING:
    from manager.operator import AnyOperator
    from manager.program import Program
    from manager.simulation.seeds import Outcome, Plan, Samples

_AT_LEAST_1 = click.IntRange(1)
_TOLD_EVERY = 5.0
_ENOUGH = 10
"""Runs in which something of every kind should have been created; of one kind at least, in any."""


def _names(context: click.Context, _: click.Parameter, typed: str) -> list[str]:
    names = [operator.name for operator in context.ensure_object(Invocation).operators()]
    return [each for each in names if each.startswith(typed)]


@click.command
@click.option("--seeds", type=_AT_LEAST_1, metavar="N", show_default="100", help="number of runs")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="run this seed, or begin with it")
@click.option(
    "--minutes",
    type=_AT_LEAST_1,
    metavar="N",
    show_default="5, of each eighth seed 8",
    help="virtual minutes of changes and faults",
)
@click.option(
    "--jobs",
    type=_AT_LEAST_1,
    default=lambda: os.cpu_count() or 1,
    metavar="N",
    show_default="one for each processor",
    help="number of processes",
)
@click.option(
    "--shards",
    type=parse_count,
    default="0",
    metavar="N",
    help="have managers share the objects in so many parts, instead of one that leads",
)
@file_flag("--replay", text="run what an earlier failure has left in that file")
@file_flag("--matrix", text="run each fault with each operator (--seeds: 3 times), and write a page of it")
@click.option(
    "--operator",
    "chosen",
    multiple=True,
    metavar="NAME",
    shell_complete=_names,
    help="run only this one; may be given again",
)
@click.option(
    "--crash-points",
    is_flag=True,
    help="end a process before and after each write of a seed, and do nothing else to it",
)
@click.option(
    "--keep-going",
    is_flag=True,
    help="go on after a run that does not hold; its plan is left in a file, for --replay",
)
@pass_invocation
def simulate(invocation: Invocation, /, **flags: Any) -> int:
    """Run the operators in a simulated cluster, in virtual time.

    Meanwhile people change objects and things go wrong: processes die and freeze, connections break, answers
    get lost, the API server is behind. Each seed is another run, and always the same one. Invariants are
    checked at every write and in the end; the exit code is 1 when one does not hold.
    """
    if importlib.util.find_spec("devcluster") is None:
        raise click.ClickException("simulate needs what operator-manager[testing] installs")
    from manager.simulation.guards import NotRepeatable  # noqa: PLC0415 - other commands do without
    from manager.simulation.seeds import run_all, specs_of  # noqa: PLC0415 - as above

    given = {name: value for name, value in flags.items() if value is not None}
    only, jobs = given.pop("chosen"), given["jobs"]
    chosen = _chosen(invocation.operators(), only)
    declared_definitions(chosen, UNPLACED)  # a wrong model is one line
    samples = specs_of(_samples(Path("config/samples")))
    if "matrix" in given:
        return _matrix(given, chosen, samples, invocation.program, jobs)
    count = 1 if {"seed", "replay"} & set(given) else 100
    count = given.get("seeds", count)
    plans = _plans(given, chosen, count, samples)
    if given["crash_points"]:
        count = 0  # the number is unknown
    outcomes = run_all(plans, chosen, jobs=1 if count == 1 else jobs, samples=samples)
    try:
        return _run(
            outcomes,
            chosen,
            samples,
            count=count,
            first=given.get("seed", 0),
            only=only,
            keeps_going=given["keep_going"],
        )
    except NotRepeatable as error:
        raise click.ClickException(str(error)) from error


def _samples(folder: Path) -> Iterator[dict[str, Any]]:
    """The objects of `config/samples/`, where a project has them."""
    from manager.yaml_text import load_all  # noqa: PLC0415 - other commands do without

    for path in sorted(folder.glob("*.yaml")):
        try:
            documents = load_all(path.read_bytes())
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise click.UsageError(f"{path}: {reason}") from None
        yield from (
            each for each in documents if isinstance(each, dict) and {"apiVersion", "kind"} <= set(each)
        )


def _plans(
    given: Mapping[str, Any], operators: Sequence[AnyOperator], count: int, samples: Samples
) -> Iterable[Plan]:
    from manager.simulation.seeds import Plan, crash_points, plan_of  # noqa: PLC0415 - as above

    if "replay" in given:
        path = Path(given["replay"])
        try:
            return [Plan.from_json(read_small_file(path), kinds=len(operators))]
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise click.UsageError(f"--replay {path}: {reason}") from None
    first = given.get("seed", 0)
    drawn = {"minutes": given.get("minutes"), "shards": given.get("shards", 0)}
    plans = (plan_of(each, operators, **drawn) for each in range(first, first + count))
    if given["crash_points"]:
        return chain.from_iterable(crash_points(plan, operators, samples=samples) for plan in plans)
    return plans


def _run(
    outcomes: Generator[Outcome, None, None],
    operators: Sequence[AnyOperator],
    samples: Samples,
    *,
    count: int,
    first: int = 0,
    only: Sequence[str] = (),
    keeps_going: bool = False,
) -> int:
    from manager.simulation.seeds import never_accepted  # noqa: PLC0415 - as above

    progress, failed = _Progress(count, first), 0
    with _asked_to_stop() as asked, closing(outcomes):
        for outcome in outcomes:
            if not outcome.violations:
                progress.add(outcome)
            elif keeps_going:
                failed += 1
                kept = _saved(outcome.plan)
                print(f"seed {outcome.plan.seed}: {outcome.violations[0].what}; see {kept}", flush=True)
            else:
                _report(outcome, operators, samples, asked, only)
                return 1
            if asked:
                return progress.interrupted(asked[0])
    print(progress.summary())
    if failed:
        print(f"{failed:,} runs do not hold")
        return 1
    missing = never_accepted(progress.accepted, operators)
    if missing and (progress.done >= _ENOUGH or not progress.accepted_of(operators)):
        print(f"{missing}: put one that it takes under config/samples/", file=sys.stderr)
        return 1
    return 0


def _matrix(
    given: Mapping[str, Any], operators: Sequence[AnyOperator], samples: Samples, program: Program, jobs: int
) -> int:
    from manager.simulation.faults import KINDS_OF_FAULT  # noqa: PLC0415 - as above
    from manager.simulation.matrix import matrix, plans_of_faults  # noqa: PLC0415 - as above
    from manager.simulation.seeds import run_all  # noqa: PLC0415 - as above

    page = Path(given["matrix"])
    try:
        page.open("a").close()  # a page that cannot be written is not worth its runs
    except OSError as error:
        raise click.UsageError(f"--matrix {page}: {error.strerror}") from None
    first, count, minutes = given.get("seed", 0), given.get("seeds", 3), given.get("minutes", 5)
    progress, found = _Progress(len(KINDS_OF_FAULT) * len(operators) * count, first), []
    failed = 0
    with _asked_to_stop() as asked:
        for operator in operators:
            plans = plans_of_faults(operator, range(first, first + count), minutes=minutes)
            with closing(run_all(plans, (operator,), jobs=jobs, samples=samples)) as outcomes:
                for outcome in outcomes:
                    found.append((operator.name, outcome))
                    if outcome.violations:
                        failed += 1
                        fault, what = outcome.plan.faults[0].what, outcome.violations[0].what
                        print(f"{operator.name}, {fault}, seed {outcome.plan.seed}: {what}", flush=True)
                    else:
                        progress.add(outcome)
                    if asked:
                        return progress.interrupted(asked[0])
    flags = "".join(f" --{name} {given[name]}" for name in ("seed", "seeds", "minutes") if name in given)
    command = f"{program.name} simulate --matrix {given['matrix']}{flags}"
    page.write_text(matrix(found, command=command, minutes=minutes))
    print(progress.summary())
    return 1 if failed else 0


@contextmanager
def _asked_to_stop() -> Iterator[list[int]]:
    """The signals that came: the runs that are under way go on to their ends."""
    asked: list[int] = []
    both = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(each, lambda number, _: asked.append(number)) for each in both]
    try:
        yield asked
    finally:
        for each, previous in zip(both, before, strict=True):
            signal.signal(each, previous)


class _Progress:
    """Says now and then how far it is; `count` is 0 if the number is unknown."""

    def __init__(self, count: int, first: int) -> None:
        self.done = 0
        self.accepted = Counter[str]()
        self._of = f" of {count:,}" if count else ""
        self._writes, self._virtual, self._next_seed = 0, 0.0, first
        self._began = self._told_at = time.monotonic()

    def add(self, outcome: Outcome) -> None:
        self.accepted.update(outcome.accepted)
        self.done += 1
        self._writes += outcome.writes
        self._virtual += outcome.seconds
        self._next_seed = outcome.plan.seed + (outcome.plan.crash_at is None)
        if time.monotonic() - self._told_at >= _TOLD_EVERY:
            self._told_at = time.monotonic()
            print(f"{self.done:,}{self._of} runs hold, {self._pace():,.0f} a minute", flush=True)

    def accepted_of(self, operators: Sequence[AnyOperator]) -> int:
        """How many objects of these the API server has taken."""
        from manager.simulation.comparing import resource_of  # noqa: PLC0415 - other commands do without

        return sum(self.accepted[resource_of(each.kind)] for each in operators)

    def summary(self, of: str = "") -> str:
        took, hours = time.monotonic() - self._began, self._virtual / 3600
        return (
            f"{self.done:,}{of} runs hold: {hours:,.1f} virtual hours with {self._writes:,} writes "
            f"of managers, in {took:,.0f} s ({self._pace():,.0f} runs a minute)"
        )

    def interrupted(self, by: int) -> int:
        """Say what was done, and where to go on; returns what programs end with that a signal has ended."""
        print(f"\ninterrupted: {self.summary(self._of)}")
        print(f"to go on: --seed {self._next_seed}")
        return 128 + by

    def _pace(self) -> float:
        return self.done / max(time.monotonic() - self._began, 0.001) * 60


def _report(
    outcome: Outcome,
    operators: Sequence[AnyOperator],
    samples: Samples,
    asked: Sequence[int],
    only: Sequence[str],
) -> None:
    from manager.simulation.seeds import shrunk, told  # noqa: PLC0415 - as above

    print(f"seed {outcome.plan.seed} does not hold: {outcome.violations[0].what}", flush=True)
    print("making it small ...", flush=True)
    small = shrunk(outcome, operators, samples=samples, enough=lambda: asked)
    if asked:
        print("interrupted: it could be smaller")
    print(told(small))
    # Steps are drawn for these operators, and with others they are other steps.
    chosen = "".join(f" --operator {name}" for name in only)
    print(f"\nto see this again: simulate{chosen} --replay {_saved(small.plan)}")


def _saved(plan: Plan) -> Path:
    """The file that a plan is put into."""
    crash = "" if plan.crash_at is None else "-{}-{}".format(*plan.crash_at)
    path = Path(f"simulation-{plan.seed}{crash}.json")
    path.write_text(plan.to_json())
    return path


def _chosen(operators: Sequence[AnyOperator], names: Sequence[str]) -> Sequence[AnyOperator]:
    known = {operator.name: operator for operator in operators}
    for name in names:
        if name not in known:
            raise click.UsageError(f"--operator: there is no {name!r}; there are {', '.join(known)}")
    return tuple(known[name] for name in names or known)
