"""Many simulation runs: their progress, the first failing run, and a page about all faults."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import click

from manager.operator import AnyOperator
from manager.util.program import Program
from manager.util.small_file import read_small_file
from manager.util.yaml_text import yaml_documents
from manager_tools.simulation.comparing import resource_of
from manager_tools.simulation.guards import NotRepeatable
from manager_tools.simulation.plan import ALONE, KINDS_OF_FAULT, Plan, plan_of
from manager_tools.simulation.seeds import (
    Outcome,
    Samples,
    crash_points,
    never_accepted,
    run_all,
    shrunk,
    specs_of,
    story_of,
)

_TOLD_EVERY = 5.0
_ENOUGH = 10
"""The number of runs after which an object of every kind should have been created."""

_SHARDS = 4
"""The number of shards in runs with faults that need several active managers."""

_INTRODUCTION = """\
# Faults

This page shows the effect of faults on the operators, in [simulated runs](simulation.md). In each run, users
change objects for {minutes:g} minutes, and one kind of fault happens, one to nine times. With the faults
{shared}, several managers divide the objects into {shards} shards; with other faults, one manager leads.

In the activated environment, this command repeats the runs, and writes this page:

```text
$ {command}
```

Each cell shows how many runs converge, and how many virtual seconds the slowest of these runs needs after the
last fault and change. A run can need ten minutes, because a Deployment whose pods do not become ready exceeds
its progress deadline after ten minutes. *Lost* and *there twice* count missing and surplus objects at the
end of the row's runs, compared with a fresh install.

"""


def run_campaign(given: Mapping[str, Any], operators: Sequence[AnyOperator], program: Program) -> int:
    """Run the simulations that the flags of `simulate` request; return the exit code, 1 if a run fails.

    Raises `UsageError` if a file cannot be read or written, and `ClickException` if an operator is not
    deterministic.
    """
    samples = specs_of(_samples(Path("config/samples")))
    try:
        if "matrix" in given:
            return _matrix(given, operators, samples, program, given["jobs"])
        return _run_plans(given, operators, samples)
    except NotRepeatable as error:
        raise click.ClickException(str(error)) from error


def _run_plans(given: Mapping[str, Any], operators: Sequence[AnyOperator], samples: Samples) -> int:
    count = 1 if {"seed", "replay"} & set(given) else 100
    count = given.get("seeds", count)
    plans = _plans(given, operators, count, samples)
    if given["crash_points"]:
        count = 0  # the number is unknown in advance
    outcomes = run_all(plans, operators, jobs=1 if count == 1 else given["jobs"], samples=samples)
    return _run(
        outcomes,
        operators,
        samples,
        count=count,
        first=None if "replay" in given else given.get("seed", 0),
        only=given["only"],
        keeps_going=given["keep_going"],
    )


def _samples(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.yaml")):
        try:
            documents = yaml_documents(path.read_bytes())
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise click.UsageError(f"{path}: {reason}") from None
        yield from (
            each for each in documents if isinstance(each, dict) and {"apiVersion", "kind"} <= set(each)
        )


def _plans(
    given: Mapping[str, Any], operators: Sequence[AnyOperator], count: int, samples: Samples
) -> Iterable[Plan]:
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
    first: int | None = 0,
    only: Sequence[str] = (),
    keeps_going: bool = False,
) -> int:
    progress, failed = _Progress(count, first), 0
    with _asked_to_stop() as asked, closing(outcomes):
        for outcome in outcomes:
            if not outcome.violations:
                progress.add(outcome)
            elif keeps_going:
                failed += 1
                progress.record_plan(outcome.plan)
                kept = _file_of(outcome.plan)
                print(f"seed {outcome.plan.seed}: {outcome.violations[0].what}; see {kept}", flush=True)
                _write(kept, outcome.plan.to_json())
            else:
                _print_failure(outcome, operators, samples, asked, only)
                return 1
            if asked:
                return progress.interrupted(asked[0])
    print(progress.summary())
    if failed:
        print(f"{failed:,} runs failed")
        return 1
    missing = never_accepted(progress.accepted, operators)
    if missing and (progress.done >= _ENOUGH or not progress.accepted_of(operators)):
        print(f"{missing}: put a valid one under config/samples/", file=sys.stderr)
        return 1
    return 0


def _matrix(
    given: Mapping[str, Any], operators: Sequence[AnyOperator], samples: Samples, program: Program, jobs: int
) -> int:
    page = Path(given["matrix"])
    try:
        page.open("a").close()  # an unwritable page must not end the runs
    except OSError as error:
        raise click.UsageError(f"--matrix {page}: {error.strerror}") from None
    first, count, minutes = given.get("seed", 0), given.get("seeds", 3), given.get("minutes", 5)
    progress, found = _Progress(len(KINDS_OF_FAULT) * len(operators) * count), []
    failed = 0
    with _asked_to_stop() as asked:
        for operator in operators:
            plans = _plans_of_faults(operator, range(first, first + count), minutes=minutes)
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
    _write(page, fault_page(found, command=command, minutes=minutes))
    print(progress.summary())
    return 1 if failed else 0


@contextmanager
def _asked_to_stop() -> Iterator[list[int]]:
    """Collect the numbers of received signals in the yielded list, instead of ending the process."""
    asked: list[int] = []
    both = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(each, lambda number, _: asked.append(number)) for each in both]
    try:
        yield asked
    finally:
        for each, previous in zip(both, before, strict=True):
            signal.signal(each, previous)


class _Progress:
    """A periodic report of the progress.

    `count` is the number of runs, 0 if it is unknown. `first` is the first seed, None if later runs cannot
    continue after an interrupted one.
    """

    def __init__(self, count: int, first: int | None = None) -> None:
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
        self.record_plan(outcome.plan)
        if time.monotonic() - self._told_at >= _TOLD_EVERY:
            self._told_at = time.monotonic()
            print(f"{self.done:,}{self._of} runs passed, {self._pace():,.0f} a minute", flush=True)

    def record_plan(self, plan: Plan) -> None:
        """Let a later command continue after this plan, or at its seed if the seed has further plans."""
        if self._next_seed is not None:
            self._next_seed = plan.seed + (plan.crash_at is None)

    def accepted_of(self, operators: Sequence[AnyOperator]) -> int:
        return sum(self.accepted[resource_of(each.kind)] for each in operators)

    def summary(self, of: str = "") -> str:
        took, hours = time.monotonic() - self._began, self._virtual / 3600
        return (
            f"{self.done:,}{of} runs passed: {hours:,.1f} virtual hours with {self._writes:,} writes "
            f"of managers, in {took:,.0f} s ({self._pace():,.0f} runs a minute)"
        )

    def interrupted(self, by: int) -> int:
        """Print how many runs are done and how to continue; return the exit code for signal `by`."""
        print(f"\ninterrupted: {self.summary(self._of)}")
        if self._next_seed is not None:
            print(f"to continue: --seed {self._next_seed}")
        return 128 + by

    def _pace(self) -> float:
        return self.done / max(time.monotonic() - self._began, 0.001) * 60


def _print_failure(
    outcome: Outcome,
    operators: Sequence[AnyOperator],
    samples: Samples,
    asked: Sequence[int],
    only: Sequence[str],
) -> None:
    print(f"seed {outcome.plan.seed} failed: {outcome.violations[0].what}", flush=True)
    print("reducing the plan ...", flush=True)
    small = shrunk(outcome, operators, samples=samples, enough=lambda: asked)
    if asked:
        print("interrupted: the plan could be smaller")
    print(story_of(small))
    # The steps depend on the operators: other operators lead to other steps.
    chosen = "".join(f" --operator {name}" for name in only)
    kept = _file_of(small.plan)
    _write(kept, small.plan.to_json())
    print(f"\nto repeat this run: simulate{chosen} --replay {kept}")


def _file_of(plan: Plan) -> Path:
    crash = "" if plan.crash_at is None else "-{}-{}".format(*plan.crash_at)
    return Path(f"simulation-{plan.seed}{crash}.json")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from None


def _plans_of_faults(operator: AnyOperator, seeds: Sequence[int], *, minutes: float) -> Iterator[Plan]:
    for fault in KINDS_OF_FAULT:
        shards = 0 if fault in ALONE else _SHARDS
        yield from (plan_of(seed, (operator,), minutes=minutes, fault=fault, shards=shards) for seed in seeds)


def fault_page(outcomes: Iterable[tuple[str, Outcome]], *, command: str, minutes: float) -> str:
    """Return the page that shows for each fault and operator whether all runs passed.

    `outcomes` has the operators' names and the result of each run; in each, users act for `minutes`.
    """
    cells: dict[tuple[str, str], list[Outcome]] = {}
    for name, outcome in outcomes:
        cells.setdefault((outcome.plan.faults[0].what, name), []).append(outcome)
    names = list(dict.fromkeys(name for _, name in cells))
    head = ["fault", "what it is", *names, "lost", "there twice"]
    rows = [head, ["---"] * len(head)]
    for fault, (_, words) in KINDS_OF_FAULT.items():
        row = [cells.get((fault, name), []) for name in names]
        every = [outcome for cell in row for outcome in cell]
        told = words.format(manager="a manager", seconds="a while", size="a part")
        lost, doubled = sum(each.lost for each in every), sum(each.doubled for each in every)
        rows.append([f"`{fault}`", told, *map(_cell, row), str(lost), str(doubled)])
    shared = " and ".join(f"`{each}`" for each in KINDS_OF_FAULT if each not in ALONE)
    page = _INTRODUCTION.format(command=command, minutes=minutes, shared=shared, shards=_SHARDS)
    return page + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cell(outcomes: Sequence[Outcome]) -> str:
    held = [each for each in outcomes if not each.violations]
    worst = max((each.settled for each in held), default=0.0)
    return f"{len(held)} of {len(outcomes)}, {worst:,.0f} s" if outcomes else ""
