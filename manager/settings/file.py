"""Settings from a YAML file."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_settings import PydanticBaseSettingsSource

from manager.settings.error import SettingsError
from manager.settings.origin import env_names, key_name

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


class FileSource(PydanticBaseSettingsSource):
    """The file that the stronger sources name as `config`; nothing when they name none."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Not used: the file is read as a whole."""
        raise NotImplementedError

    def __call__(self) -> dict[str, Any]:
        """Values by field, but for those a stronger source gave, whose name may be an alias.

        Keys that are no field's are left alone. Raises `SettingsError` for an unreadable file.
        """
        path = self.current_state.get("config")
        if not path:
            return {}
        values = read_file(path)
        stronger = self.current_state.keys()
        return {
            field: values[key_name(field)]
            for field in self.settings_cls.model_fields
            if key_name(field) in values and stronger.isdisjoint({field, *env_names(field)})
        }


def check_keys(path: str, known: Collection[str]) -> None:
    """Raise `SettingsError` for the first key in the file at `path` that is none of the `known` ones."""
    for key in _mapping(path):
        if key not in known:
            close = difflib.get_close_matches(str(key).replace("_", "-"), known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise SettingsError(f"{path}: unknown key {key!r}{hint}")


def read_file(path: str) -> dict[Any, Any]:
    """What the file at `path` says, by key; a key without a value is not set.

    Raises `SettingsError` that names the file, and the line where there is one.
    """
    return {key: value for key, value in _mapping(path).items() if value is not None}


def _mapping(path: str) -> dict[Any, Any]:
    # YAML costs half a megabyte, and most managers have no file.
    import yaml  # noqa: PLC0415

    try:
        content = yaml.safe_load(Path(path).read_bytes())
    except OSError as error:
        raise SettingsError(f"{path}: cannot read the settings file: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SettingsError(f"{path}: not valid YAML{line}: {error.problem}") from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise SettingsError(f"{path}: not a YAML text: {str(error).splitlines()[0]}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: a mapping of settings is expected, such as 'log-level: debug'")
    return content
