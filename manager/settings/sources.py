"""Where one setting is given, and what is written there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from manager.program import Program
from manager.setting import Setting
from manager.settings.file import read_file
from manager.settings.origin import env_names, flag_name, key_name

__all__ = ["Given", "Sources"]


@dataclass(frozen=True, slots=True)
class Given:
    """A value as it was written."""

    where: str
    """The flag, variable or key of the file, in words."""

    value: Any
    """A text; from a file, what YAML makes of it."""


class Sources:
    """The flags, the environment and the file that one of these names, the strongest first."""

    def __init__(self, flags: Mapping[str, str], program: Program) -> None:
        """`flags` are by field, or by the name of a setting that an operator declared."""
        self._flags = flags
        self._program = program
        self.path = flags.get("config") or os.environ.get(env_names("config", program)[0]) or None

    def find(self, field: str) -> Given | None:
        """What is given for a field of `Settings`; None for nothing.

        Raises `SettingsError` for a file that cannot be read.
        """
        return self._find(field, env_names(field, self._program))

    def find_declared(self, setting: Setting[Any]) -> Given | None:
        """What is given for a setting that an operator has declared; None for nothing. It raises the same."""
        return self._find(setting.name, (setting.variable,))

    def _find(self, field: str, variables: Sequence[str]) -> Given | None:
        if field in self._flags:
            return Given(flag_name(field), self._flags[field])
        for name in variables:
            if value := os.environ.get(name):
                return Given(f"the environment variable {name}", value)
        key = key_name(field)
        if key in self._in_file:
            return Given(f"{key!r} in {self.path}", self._in_file[key])
        return None

    @cached_property
    def _in_file(self) -> dict[Any, Any]:
        return read_file(self.path) if self.path else {}
