"""Migrating one definition after the other, until all are done or somebody asks for an end."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from manager.cli.failure import in_one_line, is_expected
from manager.cli.migrate_options import MigrateArguments
from manager.cli.migrate_report import MigrateReport
from manager.cli.screen import Screen
from manager.cli.server_version import server_version
from manager.cli.signals import StopSignals
from manager.kube.config import load_config
from manager.kube.errors import KubeError, NotFound, Unauthorized
from manager.kube.http_wire import HttpWire
from manager.kube.transport import Transport
from manager.logs import get_logger
from manager.metrics import Metrics
from manager.migration import Definitions, Migration, MigrationFailed, Outcome, Patience
from manager.program import Program
from manager.watchdog import Watchdog

__all__ = ["migrate"]


async def migrate(
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
    async with _connected(program, arguments) as transport:
        for name in names:
            done &= await _migrate_one(name, program, arguments, transport, screen)
    return done


async def _migrate_one(
    name: str, program: Program, arguments: MigrateArguments, transport: Transport, screen: Screen
) -> bool:
    options, clock = arguments.options, asyncio.get_running_loop().time
    report = MigrateReport(name, screen, options, clock)
    patience = Patience(random.Random(), tell=report.waiting)
    definitions = Definitions(transport, patience, program)
    migration = Migration(transport, definitions, patience, options=options, report=report)
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


@asynccontextmanager
async def _connected(program: Program, arguments: MigrateArguments) -> AsyncIterator[Transport]:
    """A way to the API server. Raises `ConfigError` and `ServerUnusable`."""
    config = await load_config(kubeconfig=arguments.kubeconfig, context=arguments.context, environ=os.environ)
    wire = HttpWire(config)
    try:
        agent = f"{program.agent} migrate-storage"
        transport = Transport(wire, metrics=Metrics(), rng=random.Random(), user_agent=agent)
        await server_version(transport, config)
        yield transport
    finally:
        await wire.aclose()
