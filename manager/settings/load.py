"""Reading the settings, and saying in one line what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from manager.settings.error import SettingsError
from manager.settings.file import check_keys
from manager.settings.model import Settings
from manager.settings.origin import flag_name, key_name
from manager.settings.sources import Sources
from manager.settings.values import written, written_default

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from manager.setting import Setting

_EXPECTED = {
    "bool_parsing": "true or false is expected",
    "bool_type": "true or false is expected",
    "greater_than_equal": "it must not be negative",
}


def load_settings(sources: Sources, declared: Sequence[Setting[Any]] = ()) -> Settings:
    """The manager's settings.

    What operators have `declared` may be among the flags and in the file, and is left to
    `load_declared`. Raises `SettingsError` with one line: where the value came from, the value, what is
    expected.
    """
    if sources.path:
        theirs = (setting.name for setting in declared)
        check_keys(sources.path, {*theirs, *map(key_name, Settings.model_fields)} - {"config"})
    found = {field: sources.find(field) for field in Settings.model_fields}
    try:
        return Settings.model_validate({field: given.value for field, given in found.items() if given})
    except ValidationError as error:
        # The first is enough: one line that can be acted upon.
        raise SettingsError(_told(error.errors()[0], sources)) from None


def _told(detail: ErrorDetails, sources: Sources) -> str:
    message = detail["msg"].removeprefix("Value error, ")
    if not detail["loc"]:
        return message
    if detail["type"] == "literal_error":
        message = f"{detail['ctx']['expected']} is expected"
    message = _EXPECTED.get(detail["type"], message)
    where, value = given_by(str(detail["loc"][0]), sources)
    return f"invalid value {value!r} for {where}: {message}"


def given_by(field: str, sources: Sources) -> tuple[str, str]:
    """Which of the sources gave `field` its value, in words, and what was written there."""
    found = sources.find(field)
    if found is not None:
        # A file may say 1.5, and only what has been read is a duration.
        value = found.value
        return found.where, str(value) if isinstance(value, float) else written(value)
    return f"the default of {flag_name(field)}", written_default(Settings.model_fields[field])
