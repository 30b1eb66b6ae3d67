"""Each fault with each operator: which runs converge, how long it takes, what is lost or there twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from manager_tools.simulation.faults import ALONE, KINDS_OF_FAULT
from manager_tools.simulation.seeds import Plan, plan_of

if TYPE_CHECKING:
    from manager.operator import AnyOperator
    from manager_tools.simulation.seeds import Outcome

__all__ = ["matrix", "plans_of_faults"]

SHARDS = 4
"""The number of shards, with faults that make no difference where one manager works."""

_INTRODUCTION = """\
# Faults

How the operators come through faults, in [simulated runs](simulation.md). In each run people change
objects for {minutes:g} minutes, and one kind of fault happens, one to nine times. With {shared},
managers share the objects in {shards} shards; with the others, one of them leads.

In the activated environment, this command repeats the runs, and writes this page:

```text
$ {command}
```

A cell says how many of the runs converge, and how long the slowest of these took after the last fault and
change, in virtual seconds. That can be ten minutes: a Deployment whose pods do not become ready changes once
more then. *Lost* and *there twice* count what is missing at the end of the row's runs, and what is there too
much, compared with a fresh install.

"""


def plans_of_faults(operator: AnyOperator, seeds: Sequence[int], *, minutes: float) -> Iterator[Plan]:
    """Yield a plan per seed for each kind of fault."""
    for fault in KINDS_OF_FAULT:
        shards = 0 if fault in ALONE else SHARDS
        yield from (plan_of(seed, (operator,), minutes=minutes, fault=fault, shards=shards) for seed in seeds)


def matrix(outcomes: Iterable[tuple[str, Outcome]], *, command: str, minutes: float) -> str:
    """Return the page about the runs, which come with their operators' names."""
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
    page = _INTRODUCTION.format(command=command, minutes=minutes, shared=shared, shards=SHARDS)
    return page + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cell(outcomes: Sequence[Outcome]) -> str:
    held = [each for each in outcomes if not each.violations]
    worst = max((each.settled for each in held), default=0.0)
    return f"{len(held)} of {len(outcomes)}, {worst:,.0f} s" if outcomes else ""
