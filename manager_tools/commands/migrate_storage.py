"""The command `migrate-storage`: one definition after the other, until all are done."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from manager.api import Resource
from manager.cli.arguments import ArgumentParser, UsageError, whole
from manager.cli.failure import connected, in_one_line, is_expected
from manager.cli.operators import UnknownKind, kind_named
from manager.cli.signals import StopSignals
from manager.duration import format_duration, parse_wait
from manager.kube.errors import KubeError, NotFound, Unauthorized
from manager.kube.transport import Transport
from manager.logs import configured, get_logger
from manager.loop import loop_factory
from manager.operator import AnyOperator
from manager.program import Program
from manager.watchdog import Watchdog
from manager_tools.migration.definitions import Definitions, MigrationFailed
from manager_tools.migration.migration import Migration
from manager_tools.migration.report import MigrationOptions, Outcome, Report, Screen
from manager_tools.migration.retry import RetryingClient

_STOP_WITHIN = 10.0
"""Seconds from a signal in which it ends."""

_COMMAND = "migrate-storage"
_DRY_RUN = "--dry-run"

_DESCRIPTION = """\
Have every object stored in the storage version of its definition, and trim status.storedVersions.

A KIND is one of this program's (Pet, pets, pets.petstore.example.com), or the full name of any other
definition on the cluster; without any, all of this program's that are installed. Run it after a version
of a kind has become the storage version: until then the old one has to stay in the definition.

The API server rewrites each object that is stored in another version, as it is: no content changes, and what
others write meanwhile is kept. Objects that it refuses to write are told with the reason; the stored
versions are then left as they are, and the exit code is 1. Interrupt it when you like, and run it again:
it goes on where it was, which it keeps in an annotation of the definition."""


@dataclass(frozen=True, slots=True)
class MigrateArguments:
    """What was asked for; `kinds` as they were written, none for all."""

    kinds: tuple[str, ...]
    kubeconfig: str | None
    context: str | None
    options: MigrationOptions


def migrate_storage(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Migrate the kinds that `argv` names, or all of `operators`; returns the exit code.

    Raises `UsageError` for a wrong argument.
    """
    arguments = parse_migrate_arguments(argv, program)
    names = named_definitions(arguments.kinds, [kind for operator in operators for kind in operator.kinds()])
    # What the library logs is for a manager's log; what matters to a person is printed.
    with (
        configured(level="error") as lines,
        Watchdog(stop_within=_STOP_WITHIN, before_exit=lines.flush) as watchdog,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        return runner.run(_migrate(program, arguments, names, watchdog))


def parse_migrate_arguments(argv: Sequence[str], program: Program) -> MigrateArguments:
    """Read the arguments. Raises `UsageError` for any that is wrong."""
    usage = f"{program.name} {_COMMAND} [KIND...] [FLAGS]"
    parser, default = ArgumentParser(_COMMAND, usage, _DESCRIPTION), MigrationOptions()
    add = parser.value
    parser.cluster()
    parser.switch(_DRY_RUN, "try everything, tell what would be refused, and store nothing")
    count = f"objects to list at once (default {default.page_size})"
    add("--page-size", metavar="N", parse=whole(1, 10_000), text=count)
    count = f"objects to rewrite at the same time (default {default.concurrency})"
    add("--concurrency", metavar="N", parse=whole(1, 1_000), text=count)
    count = f"objects to rewrite a second, at most (default {default.rate:g})"
    add("--rate", metavar="N", parse=_rate, text=count)
    wait = (
        "how long to wait before the first, until every API server of the cluster has taken up the definition"
    )
    wait += f" (default {format_duration(default.settle)})"
    add("--settle", metavar="DURATION", parse=parse_wait, text=wait)
    # A flag that may stand alone would take a kind for its value.
    alone = [f"{each}=true" if each == _DRY_RUN else each for each in argv]
    given, kinds = parser.read_with_operands(alone)
    values = vars(given)
    kubeconfig, context = values.pop("kubeconfig", None), values.pop("context", None)
    return MigrateArguments(tuple(kinds), kubeconfig, context, MigrationOptions(**values))


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 < rate < math.inf:
        raise ValueError("a number above 0 is expected")
    return rate


def named_definitions(asked: Sequence[str], kinds: Sequence[type[Resource]]) -> list[str]:
    """The names of the definitions that `asked` names, each once; of all `kinds` if it names none.

    A definition's full name need not be one of `kinds`. Raises `UsageError` for what nobody is called.
    """
    if not asked:
        return list(dict.fromkeys(map(_full_name, kinds)))
    return list(dict.fromkeys(_definition(name, kinds) for name in asked))


def _definition(name: str, kinds: Sequence[type[Resource]]) -> str:
    try:
        return _full_name(kind_named(name, kinds, command=_COMMAND))
    except UnknownKind as error:
        if "." in name:
            return name.lower()
        raise UsageError(f"{error}; any other goes by the full name of its definition") from None


def _full_name(kind: type[Resource]) -> str:
    return f"{kind.plural}.{kind.gvk.group}"


async def _migrate(
    program: Program, arguments: MigrateArguments, names: Sequence[str], watchdog: Watchdog
) -> int:
    """Migrate the definitions of these names; returns the exit code, which is 0 if none is left to do."""
    watchdog.watch(asyncio.get_running_loop())
    screen = Screen(asyncio.get_running_loop().time)
    with StopSignals(watchdog) as signals:
        try:
            done = await signals.unless_stopped(_migrate_all(program, arguments, names, screen))
        except Exception as error:  # noqa: BLE001 - whatever it was, it ends here, in one line
            if is_expected(error):
                screen.say(f"{program.name}: migrate-storage: {in_one_line(error)}")
            else:
                get_logger("migrate-storage").error("stopped by an unexpected error", exc_info=error)
            return 1
    return 0 if done else 1


async def _migrate_all(
    program: Program, arguments: MigrateArguments, names: Sequence[str], screen: Screen
) -> bool:
    """Whether all of it is done."""
    done = True
    async with connected(program, _COMMAND, kubeconfig=arguments.kubeconfig, context=arguments.context) as (
        transport,
        _,
    ):
        for name in names:
            done &= await _migrate_one(name, program, arguments, transport, screen)
    return done


async def _migrate_one(
    name: str, program: Program, arguments: MigrateArguments, transport: Transport, screen: Screen
) -> bool:
    options, clock = arguments.options, asyncio.get_running_loop().time
    report = Report(name, screen, options, clock)
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
        raise  # of which the next one would not know better
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
