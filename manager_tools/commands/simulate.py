"""The command `simulate`, which tests the operators in a simulated cluster with faults."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from manager.cli.commands import Invocation, pass_invocation
from manager.cli.settings import parse_shard_count
from manager_tools.codegen.manifest import UNPLACED
from manager_tools.commands.cluster import file_flag
from manager_tools.commands.generating import declared_definitions

if TYPE_CHECKING:
    from manager.operator import AnyOperator

_AT_LEAST_1 = click.IntRange(1)


def _names(context: click.Context, _: click.Parameter, typed: str) -> list[str]:
    names = [operator.name for operator in context.ensure_object(Invocation).operators()]
    return [each for each in names if each.startswith(typed)]


@click.command
@click.option("--seeds", type=_AT_LEAST_1, metavar="N", show_default="100", help="number of runs")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="run this seed, or start at it")
@click.option(
    "--minutes",
    type=_AT_LEAST_1,
    metavar="N",
    show_default="5; for each eighth seed 8",
    help="virtual minutes with changes and faults",
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
    type=parse_shard_count,
    default="0",
    metavar="N",
    help="let several managers work, and divide the objects into this number of shards",
)
@file_flag("--replay", text="run the plan in this file, which an earlier failure has written")
@file_flag("--matrix", text="run each fault with each operator (--seeds times, default 3); write this report")
@click.option(
    "--operator",
    "only",
    multiple=True,
    metavar="NAME",
    shell_complete=_names,
    help="run only this operator; repeatable",
)
@click.option(
    "--crash-points",
    is_flag=True,
    help="run a seed without other faults; kill a process before and after each of its writes",
)
@click.option(
    "--keep-going",
    is_flag=True,
    help="continue after a failing run; its plan is written to a file for --replay",
)
@pass_invocation
def simulate(invocation: Invocation, /, **flags: Any) -> int:
    """Run the operators in a simulated cluster, in virtual time.

    Simulated users change objects, and faults occur: processes die and freeze, connections break, responses
    get lost, the API server returns old states. Each seed gives another run, which is always the same for
    that seed. Invariants are checked at every write and at the end; the exit code is 1 if one is violated.
    """
    chosen = _chosen(invocation.operators(), flags["only"])
    declared_definitions(chosen, UNPLACED)  # an invalid model is reported in one line
    from manager_tools.simulation.campaign import run_campaign  # noqa: PLC0415 - 155 ms, 17 MB: not for the help

    given = {name: value for name, value in flags.items() if value is not None}
    return run_campaign(given, chosen, invocation.program)


def _chosen(operators: Sequence[AnyOperator], names: Sequence[str]) -> Sequence[AnyOperator]:
    known = {operator.name: operator for operator in operators}
    for name in names:
        if name not in known:
            raise click.UsageError(f"--operator: there is no {name!r}; there are {', '.join(known)}")
    return tuple(known[name] for name in names or known)
