"""Declarations of functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from devcluster.schema.cel.types import Type

__all__ = ["Overload", "Table", "function", "method"]


@dataclasses.dataclass(frozen=True, slots=True)
class Overload:
    """An overload of a function, by its parameter types; a `member` has the receiver first."""

    params: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    member: bool


Table = dict[str, list[Overload]]


def function(params: tuple[Type, ...], result: Type, call: Callable[..., Any]) -> Overload:
    """Declare `name(…)`."""
    return Overload(params, result, call, member=False)


def method(params: tuple[Type, ...], result: Type, call: Callable[..., Any]) -> Overload:
    """Declare `receiver.name(…)`."""
    return Overload(params, result, call, member=True)
