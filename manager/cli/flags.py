"""The flags of `run` and `plan`: one for each setting."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from manager.cli.commands import Invocation
from manager.cli.operators import installed_operators
from manager.cli.settings import OWN, Settings
from manager.operator import AnyOperator
from manager.settings import Setting, SettingsError, parse_bool
from manager.util.program import Program

__all__ = ["SettingsCommand", "settings_by_heading"]

_PATHS = {"FILE": "file", "DIR": "dir"}
"""The placeholders of settings that a shell completes as paths."""

_INDENT = 6
"""Columns of the help before the texts of flags; the names of variables are long."""


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
    """The flag of one setting. The settings check its value, as they do for variables and files."""

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
            **(alone if is_switch else {}),
        )
        self.setting = setting
        self.heading = heading

    def given(self, value: Any) -> str | None:
        """Return the value of the parsed flag as one text; None where the flag is not there."""
        return (",".join(value) if value else None) if self.setting.many else value

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return files, the names of controllers, or the values that the setting may have."""
        if self.setting.placeholder in _PATHS:
            return [CompletionItem(incomplete, type=_PATHS[self.setting.placeholder])]
        if self.setting is Settings.controllers:
            choices = [each.name for each in ctx.ensure_object(Invocation).operators()]
        else:
            choices = list(getattr(self.setting.parse, "choices", ()))
        return [CompletionItem(each) for each in choices if each.startswith(incomplete)]


class SettingsCommand(click.Command):
    """A command with a flag for each setting of the manager and of its operators.

    The function of the command gets `flags`: the given values as text, by the names of the settings.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own flags, then those of the settings.

        Raises `OperatorUnusable` for operators that cannot run, and for a flag of two operators.
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
        """Call the function with the flags of settings in one mapping."""
        flags: dict[str, str] = {}
        for each in self.get_params(ctx):
            if isinstance(each, _SettingFlag):
                given = each.given(ctx.params.pop(each.name))
                if given is not None:
                    flags[each.setting.name] = given
        ctx.params["flags"] = flags
        try:
            return super().invoke(ctx)
        except SettingsError as error:
            raise click.UsageError(str(error), ctx) from error

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the description, and which controllers there are."""
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
