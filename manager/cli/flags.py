"""The flags of `run`, one for each setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manager.cli.arguments import ArgumentParser, unknown_argument
from manager.cli.errors import UsageError
from manager.setting import Setting
from manager.settings.model import Settings
from manager.settings.origin import flag_name

__all__ = ["parse_flags"]

_REPEATABLE = frozenset({"controllers", "concurrency", "namespaces"})
"""Lists: given several times, the values come one after the other. Of any other flag the last counts."""


def parse_flags(argv: Sequence[str], declared: Sequence[Setting[Any]] = ()) -> dict[str, str]:
    """What was given, as it was written; what was not given is left out.

    It is by field of `Settings`, or by name for what operators have `declared`. A boolean flag may stand
    alone for true. Raises `UsageError` for an unknown flag and for a flag without a value; whether values
    are right is for the settings to say.
    """
    parser = ArgumentParser("run")
    for field, info in Settings.model_fields.items():
        if info.annotation is bool:
            parser.add_argument(flag_name(field), dest=field, nargs="?", const="true")
        else:
            action = "append" if field in _REPEATABLE else "store"
            parser.add_argument(flag_name(field), dest=field, action=action)
    for setting in declared:
        parser.add_argument(flag_name(setting.name), dest=setting.name)
    given, unknown = parser.parse_known_args(argv)
    if unknown:
        flags = map(flag_name, [*Settings.model_fields, *(setting.name for setting in declared)])
        raise UsageError(f"run: {unknown_argument(unknown[0], flags)}")
    return {
        field: ",".join(value) if isinstance(value, list) else value for field, value in vars(given).items()
    }
