"""Reading the settings, and saying in one line what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from manager.settings.error import SettingsError
from manager.settings.file import read_file
from manager.settings.model import Settings
from manager.settings.origin import env_names, flag_name, key_name
from manager.settings.values import written

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_EXPECTED = {
    "bool_parsing": "true or false is expected",
    "bool_type": "true or false is expected",
    "greater_than_equal": "it must not be negative",
}


def load_settings(flags: Mapping[str, str]) -> Settings:
    """The settings from `flags` (by field name), the environment and the file they name.

    Raises `SettingsError` with one line: where the value came from, the value, what is expected.
    """
    given: dict[str, Any] = dict(flags)
    try:
        return Settings(**given)
    except ValidationError as error:
        # The first is enough: one line that can be acted upon.
        raise SettingsError(_told(error.errors()[0], flags)) from None


def _told(detail: ErrorDetails, flags: Mapping[str, str]) -> str:
    message = detail["msg"].removeprefix("Value error, ")
    if not detail["loc"]:
        return message
    name = str(detail["loc"][0])
    field = next((field for field in Settings.model_fields if name in {field, *env_names(field)}), name)
    if detail["type"] == "literal_error":
        message = f"{detail['ctx']['expected']} is expected"
    message = _EXPECTED.get(detail["type"], message)
    where, value = given_by(field, flags)
    return f"invalid value {value!r} for {where}: {message}"


def given_by(field: str, flags: Mapping[str, str]) -> tuple[str, str]:
    """Which source gave `field` its value, in words, and what was written there.

    `flags` are those that the settings were loaded with.
    """
    if field in flags:
        return flag_name(field), flags[field]
    for name in env_names(field):
        if value := os.environ.get(name):
            return f"the environment variable {name}", value
    path = flags.get("config") or os.environ.get(env_names("config")[0])
    values = read_file(path, fields=tuple(Settings.model_fields)) if path else {}
    if field in values:
        return f"{key_name(field)!r} in {path}", written(values[field])
    default = Settings.model_fields[field].get_default(call_default_factory=True, validated_data={})
    return f"the default of {flag_name(field)}", written(default)
