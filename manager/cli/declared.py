"""The settings that the operators declare, all together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from manager.operator import AnyOperator
from manager.program import Program
from manager.setting import Setting
from manager.settings.error import SettingsError
from manager.settings.model import Settings
from manager.settings.origin import env_names, flag_name

__all__ = ["declared_settings"]


def declared_settings(operators: Sequence[AnyOperator], program: Program) -> tuple[Setting[Any], ...]:
    """What `operators` declare, in their order; one that several share, once.

    Raises `SettingsError` for a name of two settings, and for one that the manager itself goes by.
    """
    owners = dict.fromkeys(_own_names(program), "the manager itself")
    declared: dict[Setting[Any], None] = {}
    for operator in operators:
        for setting in operator.declared_settings:
            if setting in declared:
                continue
            declared[setting] = None
            flag, owner = flag_name(setting.name), f"the operator {operator.name}"
            for name in (flag, setting.variable):
                if name in owners:
                    raise SettingsError(f"{owner} declares {flag}, but {name} belongs to {owners[name]}")
                owners[name] = owner
            if setting.variable.startswith(program.variables):
                raise SettingsError(f"{owner} declares {flag}, but {program.variables}* is the manager's own")
    return tuple(declared)


def _own_names(program: Program) -> Iterator[str]:
    yield "--help"
    for field in Settings.model_fields:
        yield flag_name(field)
        yield from env_names(field, program)
