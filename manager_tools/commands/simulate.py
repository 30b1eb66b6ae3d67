"""The command `simulate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from manager.cli.arguments import ArgumentParser, UsageError, whole
from manager.settings import parse_text
from manager.shards.ranges import parse_count
from manager_tools.codegen.manifest import UNPLACED
from manager_tools.commands.generating import declared_definitions

if TYPE_CHECKING:
    from manager.operator import AnyOperator
    from manager.program import Program

_DESCRIPTION = """\
Run the operators in a simulated cluster, in virtual time, while people change objects and things go wrong:
processes die and freeze, connections break, answers get lost, the API server is behind. Each seed is another
run, and always the same one. What has to hold is checked at every write and in the end."""


def simulate(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Run seeds; returns 1 when one does not hold."""
    parser = ArgumentParser("simulate", f"{program.name} simulate [FLAGS]", _DESCRIPTION)
    number, seed = whole(1), whole(0)
    for flag, metavar, parse, told in (
        ("--seeds", "N", number, "how many; default 100"),
        ("--seed", "N", seed, "this one, or the first one"),
        ("--minutes", "N", number, "virtual minutes of changes and faults; default 5, of each eighth seed 8"),
        ("--jobs", "N", number, "processes; default one for each processor"),
        (
            "--shards",
            "N",
            parse_count,
            "managers share the objects in so many parts, instead of one that leads",
        ),
        ("--replay", "FILE", parse_text, "run what an earlier failure has left in that file"),
        (
            "--matrix",
            "FILE",
            parse_text,
            "run each fault with each operator (--seeds: 3 times), and write a page of it",
        ),
    ):
        parser.value(flag, metavar=metavar, parse=parse, text=told)
    told = "only this one; may be given again"
    parser.add_argument("--operator", action="append", metavar="NAME", help=told)
    told = "end a process before and after each write of a seed, and do nothing else to it"
    parser.add_argument("--crash-points", action="store_true", default=False, help=told)
    told = "go on after a run that does not hold; its plan is left in a file, for --replay"
    parser.add_argument("--keep-going", action="store_true", default=False, help=told)
    given = vars(parser.read(argv))
    chosen = _chosen(operators, given.get("operator"))
    declared_definitions("simulate", chosen, UNPLACED)  # a wrong model is one line
    from manager_tools.simulation.campaign import run_campaign  # noqa: PLC0415 - 0.7 s, not for the help

    return run_campaign(given, chosen, program)


def _chosen(operators: Sequence[AnyOperator], names: Sequence[str] | None) -> Sequence[AnyOperator]:
    known = {operator.name: operator for operator in operators}
    for name in names or ():
        if name not in known:
            raise UsageError(f"simulate: --operator: there is no {name!r}; there are {', '.join(known)}")
    return tuple(known[name] for name in names or known)
