"""The values of the settings that operators declare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from manager.setting import Setting, SettingValues
from manager.settings.error import SettingsError
from manager.settings.sources import Given, Sources
from manager.settings.values import written

__all__ = ["load_declared"]


def load_declared(declared: Iterable[Setting[Any]], sources: Sources) -> SettingValues:
    """The values of the `declared` settings: from the sources, else the defaults.

    Raises `SettingsError` with one line: where the value came from, the value, what is expected.
    """
    return SettingValues({setting: _value(setting, sources) for setting in declared})


def _value(setting: Setting[Any], sources: Sources) -> Any:
    given = sources.find_declared(setting)
    if given is None:
        return setting.default_value()
    text = _text(given.value)
    if text is None:
        raise _refusal(given, written(given.value), "a single value is expected")
    try:
        return setting.parse(text)
    except ValueError as error:
        raise _refusal(given, text, _EXPECTED.get(setting.parse, str(error))) from error
    except Exception as error:
        what = f"{type(error).__name__}: {error} (its parser should raise ValueError)"
        raise _refusal(given, text, what) from error


_EXPECTED: dict[object, str] = {int: "a whole number is expected", float: "a number is expected"}
"""What Python's own types say better so."""


def _text(value: Any) -> str | None:
    """What was written, where YAML has made a number or a truth of it; None for what is no single value."""
    if isinstance(value, bool):
        return written(value)
    return str(value) if isinstance(value, str | int | float) else None


def _refusal(given: Given, text: str, reason: str) -> SettingsError:
    return SettingsError(f"invalid value {text!r} for {given.where}: {' '.join(reason.split())}")
