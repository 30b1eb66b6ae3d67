"""What `run --help` prints."""

from __future__ import annotations

import itertools
import shutil
import textwrap
from collections.abc import Sequence

from manager.cli.installed import installed_operators
from manager.operator import AnyOperator
from manager.program import Program
from manager.settings.model import Settings
from manager.settings.origin import env_names, flag_name
from manager.settings.values import Shown, written_default

__all__ = ["run_help"]

_INTRODUCTION = """\
Run the controllers until interrupted.

Usage: {} run [FLAGS]

Every flag can also be given as an environment variable or as a key of the file that --config names;
a flag goes before the environment, and that before the file."""

_WIDTHS = 60, 110
_INDENT = " " * 8


def run_help(operators: Sequence[AnyOperator], program: Program) -> str:
    """The flags by group, and then by operator, each with its default and its environment variables."""
    width = min(max(shutil.get_terminal_size().columns, _WIDTHS[0]), _WIDTHS[1])
    names = ", ".join(operator.name for operator in operators)
    lines = [_INTRODUCTION.format(program.name), "", f"The controllers are: {names}."]
    for operator, origin in installed_operators((), program).items():
        lines.append(f"{operator.name} comes from the installed package {origin}.")
    fields = Settings.model_fields.items()
    for group, members in itertools.groupby(fields, key=lambda item: Shown.of(item[1]).group):
        lines += ["", f"{group}:"]
        for field, info in members:
            metavar = Shown.of(info).metavar
            value = f"[={metavar}]" if info.annotation is bool else f" {metavar}"
            heading, description = f"{flag_name(field)}{value}", info.description or ""
            lines += _flag(heading, description, written_default(info), env_names(field, program), width)
    for operator in operators:
        if operator.declared_settings:
            lines += ["", f"Operator {operator.name}:"]
        for setting in operator.declared_settings:
            heading, default = f"{flag_name(setting.name)} {setting.placeholder}", setting.default or ""
            lines += _flag(heading, setting.description, default, (setting.variable,), width)
    return "\n".join(lines)


def _flag(heading: str, description: str, default: str, variables: Sequence[str], width: int) -> list[str]:
    notes = f"default {default}; environment " if default else "environment "
    text = f"{description} ({notes}{', '.join(variables)})"
    return [
        f"  {heading}",
        *textwrap.wrap(
            text,
            width,
            initial_indent=_INDENT,
            subsequent_indent=_INDENT,
            break_on_hyphens=False,
            break_long_words=False,
        ),
    ]
