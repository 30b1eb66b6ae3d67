"""Settings as the `operator-manager` program reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import click

from controllers.main import PROGRAM
from manager.cli.commands import Invocation
from manager.cli.run import SettingsCommand
from manager.cli.settings import OWN, Settings
from manager.operator import AnyOperator
from manager.settings import Setting, SettingValues, Sources
from manager.util.program import Program

FIELDS = tuple(setting.name.replace("-", "_") for setting in OWN)
"""The attributes of `Settings`."""


def params_of(group: click.Group, command: str, flags: Iterable[str]) -> dict[str, Any]:
    """Return the parameters that click parses for a command of a group from these flags.

    Without the group, click would remember wrong names of the help flag for later calls.
    """
    program = click.Context(group, **group.context_settings)
    return group.commands[command].make_context(command, list(flags), parent=program).params


def parse_flags(
    argv: Sequence[str], operators: Sequence[AnyOperator] = (), *, program: Program = PROGRAM
) -> dict[str, str]:
    """Return the settings that the command `run` parses from these flags, by setting name."""
    command = SettingsCommand("run", callback=lambda flags: flags)
    invocation = Invocation(program, operators)
    return cast("dict[str, str]", command.main(argv, "run", standalone_mode=False, obj=invocation))


def sources(flags: Mapping[str, str]) -> Sources:
    given = {name.replace("_", "-"): value for name, value in flags.items()}
    return Sources(given, PROGRAM, file=Settings.config)


def load_settings(flags: Mapping[str, str], declared: Sequence[Setting[Any]] = ()) -> Settings:
    """Load settings; keys of `flags` are flag names (`webhook-url`) or attribute names (`webhook_url`)."""
    given = sources(flags)
    given.check_keys((*OWN, *declared))
    return Settings(given)


def load_declared(declared: Iterable[Setting[Any]], flags: Mapping[str, str]) -> SettingValues:
    return sources(flags).load(declared)
