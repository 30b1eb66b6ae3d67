"""Settings from a YAML file."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from manager import yaml_text
from manager.settings.error import SettingsError


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
    try:
        content = yaml_text.load(Path(path).read_bytes())
    except OSError as error:
        raise SettingsError(f"{path}: cannot read the settings file: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SettingsError(f"{path}: not valid YAML{line}: {error.problem}") from error
    except RecursionError as error:
        raise SettingsError(f"{path}: not a settings file: it is nested too deeply") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # A number or a date may be none that there is, which the parser leaves to Python to say.
        raise SettingsError(f"{path}: not a YAML text: {str(error).splitlines()[0]}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: a mapping of settings is expected, such as 'log-level: debug'")
    return content
