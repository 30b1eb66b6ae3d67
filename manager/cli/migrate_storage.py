"""The command `migrate-storage`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from manager.cli.migrate_kinds import named_definitions
from manager.cli.migrate_options import MIGRATE_HELP, parse_migrate_arguments
from manager.cli.migrate_run import migrate
from manager.logs import configured
from manager.loop import loop_factory
from manager.operator import AnyOperator
from manager.program import Program
from manager.watchdog import Watchdog

__all__ = ["command"]

_STOP_WITHIN = 10.0
"""Seconds from a signal in which it ends."""


def command(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Migrate the kinds that `argv` names, or all of `operators`; returns the exit code.

    Raises `UsageError` for a wrong argument.
    """
    if {"-h", "--help"}.intersection(argv):
        print(MIGRATE_HELP.format(program.name))
        return 0
    arguments = parse_migrate_arguments(argv)
    names = named_definitions(arguments.kinds, [kind for operator in operators for kind in operator.kinds()])
    # What the library logs is for a manager's log; what matters to a person is printed.
    with (
        configured(level="error") as lines,
        Watchdog(stop_within=_STOP_WITHIN, before_exit=lines.flush) as watchdog,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        return runner.run(migrate(program, arguments, names, watchdog))
