"""The command `run`: its flags, one for each setting, and its stop by SIGTERM and SIGINT."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import copy_context
from typing import Any

import click
from click.shell_completion import CompletionItem

from manager.cli.assembly import assembled
from manager.cli.commands import Invocation, pass_invocation
from manager.cli.failure import cause_of, in_one_line, is_expected
from manager.cli.operators import check_names, declared_settings, enabled_operators, installed_operators
from manager.cli.settings import OWN, Settings, unknown_variables
from manager.kube.errors import ConfigError
from manager.kube.transport import allow_after_stop
from manager.operator import AnyOperator
from manager.process.manager import STOP_MARGIN, Manager
from manager.settings import Setting, SettingsError, SettingValues, Sources, parse_bool
from manager.telemetry.logs import configured, get_logger
from manager.telemetry.open_files import LEAST, raised_limit
from manager.telemetry.tracing import CannotTrace, tracing
from manager.telemetry.watchdog import Watchdog
from manager.util.loop import loop_factory, unless
from manager.util.program import Program
from manager.webhook.methods import has_webhooks

_PATHS = {"FILE": "file", "DIR": "dir"}
"""The placeholders of settings that a shell completes as paths."""

_INDENT = 6
"""The indentation of the flags' texts in the help; names of variables are long."""


def settings_by_heading(
    operators: Sequence[AnyOperator],
) -> Iterator[tuple[str, tuple[Setting[Any], ...]]]:
    """Yield the manager's own settings by group, then those of each operator."""
    for group, members in itertools.groupby(OWN, key=lambda setting: setting.group):
        yield group, tuple(members)
    for operator in operators:
        if operator.declared_settings:
            yield f"Operator {operator.name}", operator.declared_settings


class _SettingFlag(click.Option):
    """The flag of one setting; its value is checked later, like the values of variables and files."""

    def __init__(self, setting: Setting[Any], heading: str, program: Program) -> None:
        variables = ", ".join(setting.variables(program))
        default = setting.default or setting.unset
        alone: dict[str, Any] = {"is_flag": False, "flag_value": "true"}
        is_switch = setting.parse is parse_bool
        super().__init__(
            [setting.flag, setting.name.replace("-", "_")],
            type=click.UNPROCESSED,
            multiple=setting.many,
            metavar=f"[{setting.placeholder}]" if is_switch else setting.placeholder,
            help=f"{setting.description} (default {default}; environment {variables})",
            # `--namespaces=` is a value, and overrides a variable.
            callback=(lambda _, __, given: ",".join(given) if given else None) if setting.many else None,
            **(alone if is_switch else {}),
        )
        self.setting = setting
        self.heading = heading

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if self.setting.placeholder in _PATHS:
            return [CompletionItem(incomplete, type=_PATHS[self.setting.placeholder])]
        if self.setting is Settings.controllers:
            choices = [each.name for each in ctx.ensure_object(Invocation).operators()]
        else:
            choices = list(getattr(self.setting.parse, "choices", ()))
        return [CompletionItem(each) for each in choices if each.startswith(incomplete)]


class SettingsCommand(click.Command):
    """A command with a flag for each setting of the manager and of its operators.

    The function of the command gets `flags`: the given values as text, by the settings' names.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own flags, then those of the settings.

        Raises `ClickException` for operators that cannot run, and for a flag that two operators have.
        """
        own = super().get_params(ctx)
        flags: list[click.Parameter] | None = ctx.meta.get(__name__)
        if flags is None:
            taken = {name for each in own for name in each.opts}
            flags = ctx.meta[__name__] = [
                each for each in _setting_flags(ctx.ensure_object(Invocation)) if each.opts[0] not in taken
            ]
        return [*own, *flags]

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command's function with the flags of settings in one mapping."""
        flags: dict[str, str] = {}
        for each in self.get_params(ctx):
            if isinstance(each, _SettingFlag) and (given := ctx.params.pop(each.name)) is not None:
                flags[each.setting.name] = given
        ctx.params["flags"] = flags
        try:
            return super().invoke(ctx)
        except SettingsError as error:
            raise click.UsageError(str(error), ctx) from error

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the description and the list of controllers."""
        super().format_help_text(ctx, formatter)
        invocation = ctx.ensure_object(Invocation)
        names = ", ".join(each.name for each in invocation.operators())
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(f"The controllers are: {names}.")
            for operator, origin in installed_operators((), invocation.program).items():
                formatter.write_text(f"{operator.name} comes from the installed package {origin}.")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags under the headings of their settings."""
        by_heading = itertools.groupby(self.get_params(ctx), lambda each: getattr(each, "heading", "Options"))
        for heading, flags in by_heading:
            with formatter.section(heading):
                rows = [row for each in flags if (row := each.get_help_record(ctx))]
                formatter.write_dl(rows, col_max=_INDENT)


def _setting_flags(invocation: Invocation) -> Iterator[_SettingFlag]:
    seen = set[Setting[Any]]()
    for heading, settings in settings_by_heading(invocation.operators()):
        for setting in settings:
            if setting not in seen:  # several operators may share one
                seen.add(setting)
                yield _SettingFlag(setting, heading, invocation.program)


@click.command(cls=SettingsCommand)
@pass_invocation
def run(invocation: Invocation, flags: Mapping[str, str]) -> int:
    """Run the controllers until interrupted.

    Every flag can also be given as an environment variable or as a key of the file that --config names; flags
    override the environment, which overrides the file.
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
    """Return the manager's settings, the operators to run, and the values of these operators' settings.

    `given` has the texts of flags, by the names of the settings. Raises `SettingsError`.
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
    # Webhooks are served even if their operator does not run.
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
            hint = {"did_you_mean": meant} if meant else {}
            get_logger("start").warning("no setting reads this environment variable", variable=name, **hint)
        if (limit := raised_limit()) < LEAST:
            get_logger("start").error("open files limit (ulimit -n) is too low", limit=limit, needed=LEAST)
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
    with watchdog.stop_on_signals() as stop:
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(tracing(program, os.environ))
                # The stop may be requested before the cluster has answered.
                made = await unless(stop, stack.enter_async_context(connected))
                if made is not None:
                    await made[0].run(stop)
        except CannotTrace as error:
            raise SettingsError(str(error)) from error
        except (SettingsError, ConfigError):
            raise
        except Exception as error:  # noqa: BLE001 - any error ends the process here, with one line
            _log_error(error)
            return 1
        finally:
            # In any case, all open connections have only a limited time to close.
            watchdog.stopping()
    return 0


def _log_error(error: BaseException) -> None:
    """Log in one line why the process ends; add the traceback only for unexpected errors."""
    cause, log = cause_of(error), get_logger("manager")
    if is_expected(cause):
        log.error("the manager stopped because of an error", error=in_one_line(cause))
        log.debug("the process ended because of this error", exc_info=cause)
    else:
        log.error("the manager stopped because of an unexpected error", exc_info=cause)
