"""Field by field, where two answers differ; and what differs on purpose, in `known_differences.yaml`."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

__all__ = ["Known", "differences", "load_known"]

MISSING = object()


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """Something that devcluster does not do as the real server; patterns as in file names."""

    where: str
    """The conversation: `file: name`."""
    path: str
    """The field: `2.body.details.causes`, the step's number first."""
    reason: str

    def covers(self, conversation: str, path: str) -> bool:
        """Whether this is what differs."""
        return fnmatch.fnmatchcase(conversation, self.where) and fnmatch.fnmatchcase(path, self.path)


def load_known() -> list[Known]:
    """The one list of them."""
    path = Path(__file__).parent / "known_differences.yaml"
    return [Known(**each) for each in yaml.safe_load(path.read_text()) or ()]


def differences(expected: Any, actual: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(path, what differs) for each field."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted({*expected, *actual}):
            below = f"{path}.{key}" if path else str(key)
            yield from differences(expected.get(key, MISSING), actual.get(key, MISSING), below)
    elif isinstance(expected, list) and isinstance(actual, list):
        for index in range(max(len(expected), len(actual))):
            left = expected[index] if index < len(expected) else MISSING
            right = actual[index] if index < len(actual) else MISSING
            yield from differences(left, right, f"{path}.{index}" if path else str(index))
    elif expected != actual or type(expected) is not type(actual):
        yield path, f"{path}: expected {_shown(expected)}, is {_shown(actual)}"


def _shown(value: Any) -> str:
    return "nothing" if value is MISSING else json.dumps(value, ensure_ascii=False)[:600]
