"""Compiled expressions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from devcluster.schema.cel.types import Type

__all__ = ["Env", "Program", "Run", "Typed"]

Env = dict[str, Any]
Run = Callable[[Env], Any]


class Typed(NamedTuple):
    """A compiled node."""

    type: Type
    run: Run


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression."""

    type: Type
    run: Run
    """Evaluates the expression with the variables.

    Raises:
        CelError: the evaluation fails with these values.
    """
    uses: frozenset[str]
    """The variables it refers to."""
    cost: int = 0
    """The maximum cost of one evaluation, in the server's units; 0 if not estimated."""
