"""The command `run`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import copy_context

import click

from manager.cli.assembly import assembled
from manager.cli.commands import Invocation, pass_invocation
from manager.cli.failure import cause_of, in_one_line, is_expected
from manager.cli.flags import SettingsCommand
from manager.cli.operators import check_names, declared_settings, enabled_operators
from manager.cli.settings import OWN, Settings, unknown_variables
from manager.cli.signals import StopSignals
from manager.kube.errors import ConfigError
from manager.kube.transport import allow_after_stop
from manager.operator import AnyOperator
from manager.process.manager import STOP_MARGIN, Manager
from manager.settings import SettingsError, SettingValues, Sources
from manager.telemetry.logs import configured, get_logger
from manager.telemetry.open_files import LEAST, raised_limit
from manager.telemetry.tracing import CannotTrace, tracing
from manager.telemetry.watchdog import Watchdog
from manager.util.loop import loop_factory
from manager.util.program import Program
from manager.webhook.methods import has_webhooks


@click.command(cls=SettingsCommand)
@pass_invocation
def run(invocation: Invocation, flags: Mapping[str, str]) -> int:
    """Run the controllers until interrupted.

    Every flag can also be given as an environment variable or as a key of the file that --config names;
    a flag goes before the environment, and that before the file.
    """
    program, operators = invocation.program, invocation.operators()
    context = copy_context()
    context.run(allow_after_stop)  # uvloop accepts the connections of servers in this context
    try:
        return context.run(_run, program, *settings_of(flags, operators, program), operators)
    except ConfigError as error:
        raise click.ClickException(str(error)) from error


def settings_of(
    given: Mapping[str, str], operators: Sequence[AnyOperator], program: Program
) -> tuple[Settings, Sequence[AnyOperator], SettingValues]:
    """Return the manager's settings, the operators to run, and the values of the settings that these declare.

    `given` are flags by the names of the settings. Raises `SettingsError`.
    """
    declared = declared_settings(operators, program)
    sources = Sources(dict(given), program, file=Settings.config)
    sources.check_keys((*OWN, *declared))
    settings = Settings(sources)
    check_names(operators, settings.concurrency, where=sources.where(Settings.concurrency))
    where = sources.where(Settings.max_concurrent_rollouts)
    check_names(operators, settings.max_concurrent_rollouts, where=where)
    where = sources.where(Settings.controllers)
    enabled = enabled_operators(operators, settings.controllers, where=where)
    # Webhooks are served whether their operator runs or not.
    used = [each for each in operators if each in enabled or has_webhooks(each)]
    return settings, enabled, sources.load(declared_settings(used, program))


def _run(
    program: Program,
    settings: Settings,
    operators: Sequence[AnyOperator],
    declared: SettingValues,
    known: Sequence[AnyOperator],
) -> int:
    with configured(level=settings.log_level, log_format=settings.log_format) as lines:
        for name, meant in unknown_variables(program, declared_settings(known, program)).items():
            hint = f"; did you mean {meant}?" if meant else ""
            get_logger("start").warning(f"this environment variable sets nothing{hint}", variable=name)
        if (limit := raised_limit()) < LEAST:
            get_logger("start").error(
                f"at most {limit} open files are allowed (ulimit -n), and at least {LEAST} are needed"
            )
            return 1
        stop_within = max(settings.graceful_shutdown_timeout, settings.shutdown_delay) + STOP_MARGIN
        with Watchdog(stop_within=stop_within, before_exit=lines.flush) as watchdog:
            try:
                with asyncio.Runner(loop_factory=loop_factory()) as runner:
                    manager = assembled(program, settings, operators, declared, known, watchdog)
                    return runner.run(_manage(manager, program, watchdog))
            except (SettingsError, ConfigError):
                raise
            except BaseException as error:  # noqa: BLE001 - an operator called `sys.exit`, or stopped the loop
                _log_error(error)
                return 1


async def _manage(
    connected: AbstractAsyncContextManager[Manager], program: Program, watchdog: Watchdog
) -> int:
    watchdog.watch(asyncio.get_running_loop())
    with StopSignals(watchdog) as signals:
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(tracing(program, os.environ))
                # The stop may be asked for while the cluster has not answered yet.
                manager = await signals.unless_stopped(stack.enter_async_context(connected))
                if manager is not None:
                    await manager.run(signals.stop)
        except CannotTrace as error:
            raise SettingsError(str(error)) from error
        except (SettingsError, ConfigError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, it ends here, in one line
            _log_error(error)
            return 1
        finally:
            # However it ended: all that is still open has only so long to close.
            watchdog.stopping()
    return 0


def _log_error(error: BaseException) -> None:
    """Log in one line why the process ends; add the traceback only for unexpected errors."""
    cause, log = cause_of(error), get_logger("manager")
    if is_expected(cause):
        log.error(in_one_line(cause))
        log.debug("the full error", exc_info=cause)
    else:
        log.error("stopped by an unexpected error", exc_info=cause)
