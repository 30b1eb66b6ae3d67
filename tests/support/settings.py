"""Settings as `operator-manager` reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controllers.main import PROGRAM
from manager.cli.settings import OWN, Settings
from manager.settings import Setting, SettingValues, Sources

__all__ = ["FIELDS", "load_declared", "load_settings"]

FIELDS = tuple(setting.name.replace("-", "_") for setting in OWN)
"""The attributes of `Settings`."""


def sources(flags: Mapping[str, str]) -> Sources:
    given = {name.replace("_", "-"): value for name, value in flags.items()}
    return Sources(given, PROGRAM, file=Settings.config)


def load_settings(flags: Mapping[str, str], declared: Sequence[Setting[Any]] = ()) -> Settings:
    """By flags, which go by their names or by the attributes of `Settings`."""
    given = sources(flags)
    given.check_keys((*OWN, *declared))
    return Settings(given)


def load_declared(declared: Iterable[Setting[Any]], flags: Mapping[str, str]) -> SettingValues:
    return sources(flags).load(declared)
