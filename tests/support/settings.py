"""Settings as `operator-manager` reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controllers.main import PROGRAM
from manager import settings
from manager.setting import Setting, SettingValues

__all__ = ["load_declared", "load_settings"]


def load_settings(flags: Mapping[str, str], declared: Sequence[Setting[Any]] = ()) -> settings.Settings:
    return settings.load_settings(settings.Sources(flags, PROGRAM), declared)


def load_declared(declared: Iterable[Setting[Any]], flags: Mapping[str, str]) -> SettingValues:
    return settings.load_declared(declared, settings.Sources(flags, PROGRAM))
