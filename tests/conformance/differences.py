"""Field by field comparison of two answers; `known_differences.yaml` lists the accepted differences."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml

MISSING = object()


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """A known difference between the answers of devcluster and a real API server."""

    where: str
    """Id of the conversation or scene, or name of the part without controllers."""
    path: str
    """Pattern of the field's path, such as `*: get quota.stdout`."""
    reason: str


KNOWN = [
    Known(**each) for each in yaml.safe_load(Path(__file__).with_name("known_differences.yaml").read_text())
]


def complaints(
    where: str, found: Mapping[str, str], *, of_devcluster: bool, known: Sequence[Known] = KNOWN
) -> list[str]:
    """Return the differences that are not known, and the known differences that no longer exist.

    Only devcluster may have known differences. If the real server differs, the recording is wrong or old.
    """
    paths = [each.path for each in known if each.where == where and of_devcluster]
    unknown = [
        text for path, text in found.items() if not any(fnmatch.fnmatchcase(path, each) for each in paths)
    ]
    gone = [each for each in paths if not fnmatch.filter(found, each)]
    return unknown + [f"{where}: {each} differs no longer, yet is in known_differences.yaml" for each in gone]


def differences(expected: Any, actual: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each differing field, and a description of its difference."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted({*expected, *actual}):
            below = f"{path}.{key}" if path else str(key)
            yield from differences(expected.get(key, MISSING), actual.get(key, MISSING), below)
    elif isinstance(expected, list) and isinstance(actual, list):
        for index, (left, right) in enumerate(zip_longest(expected, actual, fillvalue=MISSING)):
            yield from differences(left, right, f"{path}.{index}" if path else str(index))
    elif expected != actual or type(expected) is not type(actual):
        yield path, f"{path}: expected {_shown(expected)}, is {_shown(actual)}"


def _shown(value: Any) -> str:
    return "nothing" if value is MISSING else json.dumps(value, ensure_ascii=False)[:600]
