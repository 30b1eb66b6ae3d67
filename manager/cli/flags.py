"""The flags of `run`, one for each setting, and its help."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from manager.cli.arguments import ArgumentParser
from manager.cli.operators import declared_settings, installed_operators
from manager.cli.settings import OWN
from manager.operator import AnyOperator
from manager.program import Program
from manager.settings import Setting, parse_truth

_INTRODUCTION = """\
Run the controllers until interrupted.

Every flag can also be given as an environment variable or as a key of the file that --config names;
a flag goes before the environment, and that before the file."""


def settings_by_heading(
    operators: Sequence[AnyOperator],
) -> Iterator[tuple[str, tuple[Setting[Any], ...]]]:
    """The manager's own settings by group, then those of each operator."""
    for group, members in itertools.groupby(OWN, key=lambda setting: setting.group):
        yield group, tuple(members)
    for operator in operators:
        if operator.declared_settings:
            yield f"Operator {operator.name}", operator.declared_settings


def parse_flags(
    argv: Sequence[str],
    operators: Sequence[AnyOperator],
    program: Program,
    *,
    parser: ArgumentParser | None = None,
) -> dict[str, Any]:
    """What was given, as it was written, by the names of the settings; what was not given is left out.

    `parser` is that of a command that takes the same flags as `run`, and has some before.

    Raises `UsageError` for an unknown flag and for a flag without a value; whether values are right is for
    the settings to say. Raises `SettingsError` for a flag of two operators. `--help` prints all flags with
    their defaults and variables and raises `SystemExit`.
    """
    declared_settings(operators, program)
    if parser is None:
        asked = {"-h", "--help"}.intersection(argv)
        introduction = _introduction(operators, program) if asked else None
        parser = ArgumentParser("run", f"{program.name} run [FLAGS]", introduction)
    added = set[Setting[Any]]()
    for heading, settings in settings_by_heading(operators):
        group = parser.add_argument_group(heading)
        for setting in settings:
            if setting in added:  # several operators may share one
                continue
            added.add(setting)
            variables = ", ".join(setting.variables(program))
            default = f"default {setting.default or setting.unset}; "
            shown: dict[str, Any] = {
                "dest": setting.name,
                "metavar": setting.placeholder,
                "help": f"{setting.description} ({default}environment {variables})".replace("%", "%%"),
            }
            if setting.parse is parse_truth:
                group.add_argument(setting.flag, nargs="?", const="true", **shown)
            else:
                group.add_argument(setting.flag, action="append" if setting.many else "store", **shown)
    given = vars(parser.read(argv))
    return given | {
        setting.name: ",".join(given[setting.name])
        for setting in added
        if setting.many and setting.name in given
    }


def _introduction(operators: Sequence[AnyOperator], program: Program) -> str:
    names = ", ".join(operator.name for operator in operators)
    return "\n".join(
        (
            _INTRODUCTION,
            f"\nThe controllers are: {names}.",
            *(
                f"{operator.name} comes from the installed package {origin}."
                for operator, origin in installed_operators((), program).items()
            ),
        )
    )
