"""The command `migrate-storage`, which migrates one CustomResourceDefinition after the other."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from manager.api import Resource
from manager.cli.commands import Invocation, pass_invocation
from manager.cli.failure import in_one_line, is_expected
from manager.kube.errors import KubeError, NotFound, Unauthorized
from manager.kube.transport import Transport
from manager.telemetry.logs import configured, get_logger
from manager.telemetry.watchdog import Watchdog
from manager.util.duration import format_duration, parse_wait
from manager.util.loop import loop_factory, unless
from manager.util.program import Program
from manager_tools.commands.cluster import UnknownKind, cluster_flags, connected, kind_named
from manager_tools.migration.definitions import Definitions, MigrationFailed, RetryingClient
from manager_tools.migration.migration import Migration
from manager_tools.migration.report import MigrationOptions, Outcome, Report, say

_STOP_WITHIN = 10.0
"""Seconds within which the command ends after a signal."""

_COMMAND = "migrate-storage"

_DEFAULT = MigrationOptions()


@dataclass(frozen=True, slots=True)
class MigrateArguments:
    """The arguments of `migrate-storage`; an empty `kinds` means all kinds of the program."""

    kinds: tuple[str, ...]
    kubeconfig: str | None
    context: str | None
    options: MigrationOptions


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 < rate < math.inf:
        raise ValueError("a number above 0 is expected")
    return rate


@click.command("migrate-storage")
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@cluster_flags
@click.option("--dry-run", is_flag=True, help="store nothing; print the objects that would be refused")
@click.option(
    "--page-size",
    type=click.IntRange(1, 10_000),
    default=_DEFAULT.page_size,
    metavar="N",
    help="objects per list request",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1_000),
    default=_DEFAULT.concurrency,
    metavar="N",
    help="objects to rewrite at the same time",
)
@click.option(
    "--rate",
    type=_rate,
    default=f"{_DEFAULT.rate:g}",
    metavar="N",
    help="maximum number of objects to rewrite per second",
)
@click.option(
    "--settle",
    type=parse_wait,
    default=format_duration(_DEFAULT.settle),
    metavar="DURATION",
    help="time before the first write, so that every API server has noticed the storage version",
)
@pass_invocation
def migrate_storage(
    invocation: Invocation,
    /,
    kinds: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    **options: Any,
) -> int:
    """Rewrite all objects in the storage version of their definition, and trim status.storedVersions.

    A KIND is a kind of this program (Pet, pets, pets.petstore.example.com), or the full name of any other
    definition on the cluster; the default is all installed kinds of this program. Run the command after a
    version has become the storage version; the old version has to stay in the definition until the migration
    ends.

    The API server rewrites each object that is stored in another version, as it is: no content changes, and
    concurrent writes of others are kept. Objects that it refuses to write are printed with the reason; then
    the stored versions stay unchanged, and the exit code is 1. You can interrupt the command at any time. The
    next run continues at the same position, which is stored in an annotation of the definition.
    """
    arguments = MigrateArguments(kinds, kubeconfig, context, MigrationOptions(**options))
    operators = invocation.operators()
    names = named_definitions(kinds, [kind for operator in operators for kind in operator.kinds()])
    # The library's log lines are for a manager's log; a user of this command reads printed lines.
    with (
        configured(level="error") as lines,
        Watchdog(stop_within=_STOP_WITHIN, before_exit=lines.flush) as watchdog,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        return runner.run(_migrate(invocation.program, arguments, names, watchdog))


def named_definitions(asked: Sequence[str], kinds: Sequence[type[Resource]]) -> list[str]:
    """Return the CustomResourceDefinitions' names for `asked` or, if that is empty, for all `kinds`.

    A full name may be of a kind that is not in `kinds`. Raises `UsageError` for an unknown name.
    """
    if not asked:
        return list(dict.fromkeys(map(_full_name, kinds)))
    return list(dict.fromkeys(_definition(name, kinds) for name in asked))


def _definition(name: str, kinds: Sequence[type[Resource]]) -> str:
    try:
        return _full_name(kind_named(name, kinds))
    except UnknownKind as error:
        if "." in name:
            return name.lower()
        raise click.UsageError(f"{error}; for any other, give the full name of its definition") from None


def _full_name(kind: type[Resource]) -> str:
    return f"{kind.plural}.{kind.gvk.group}"


async def _migrate(
    program: Program, arguments: MigrateArguments, names: Sequence[str], watchdog: Watchdog
) -> int:
    with watchdog.stop_on_signals() as stop:
        try:
            done = await unless(stop, _migrate_all(program, arguments, names))
        except Exception as error:  # noqa: BLE001 - each error leads to exit code 1
            if is_expected(error):
                say(f"{program.name}: migrate-storage: {in_one_line(error)}")
            else:
                get_logger("migrate-storage").error("the migration failed unexpectedly", exc_info=error)
            return 1
    return 0 if done == (True,) else 1


async def _migrate_all(program: Program, arguments: MigrateArguments, names: Sequence[str]) -> bool:
    done = True
    async with connected(program, _COMMAND, kubeconfig=arguments.kubeconfig, context=arguments.context) as (
        transport,
        _,
    ):
        for name in names:
            done &= await _migrate_one(name, program, arguments, transport)
    return done


async def _migrate_one(
    name: str, program: Program, arguments: MigrateArguments, transport: Transport
) -> bool:
    options = arguments.options
    report = Report(name, options, asyncio.get_running_loop().time)
    client = RetryingClient(transport, random.Random(), tell=report.waiting)
    definitions = Definitions(client, program)
    migration = Migration(definitions, client, options=options, report=report)
    try:
        definition = await definitions.get(name)
        if definition.deleting:
            report.skipped("the definition is being deleted, and its objects with it")
            return True
        outcome = await migration.run(definition)
    except Unauthorized:
        raise  # migrating the next CustomResourceDefinition would fail with the same error
    except NotFound as error:
        if arguments.kinds:
            report.failed(in_one_line(error))
            return False
        report.skipped("the definition is not installed")
        return True
    except (MigrationFailed, KubeError) as error:
        report.failed(in_one_line(error))
        return False
    except asyncio.CancelledError:
        report.interrupted(migration.tally)
        raise
    if outcome is Outcome.NOTHING_TO_DO:
        report.nothing_to_do(definition)
    else:
        report.ended(definition, outcome, migration.tally)
    return outcome is not Outcome.REFUSED
