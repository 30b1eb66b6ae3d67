"""Problems that validation finds, with their paths."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from devcluster.errors import FieldError

__all__ = ["UNSET_FIELD", "Check", "Problem", "Spine", "path_of"]

UNSET_FIELD = "<nil>"
"""The field of an error that has no field."""

Spine = tuple[str | int, ...]
"""The keys and indexes that lead to a value."""


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with the value at `spine`; `name` is the field, in the validator's own notation."""

    spine: Spine
    name: str
    make: Callable[[str], FieldError]


Check = Callable[[Any, Spine, list[Problem]], None]


def path_of(spine: Spine) -> str:
    """Format a path: `spec.ports[0].name`."""
    text = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in spine)
    return text.removeprefix(".")
