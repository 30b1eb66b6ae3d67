"""How a function is declared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from devcluster.schema.cel.types import Type

__all__ = ["Overload", "Table", "function", "method"]


@dataclasses.dataclass(frozen=True, slots=True)
class Overload:
    """One form of a function: for values of these types, the receiver first when it is a `member`."""

    params: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    member: bool


Table = dict[str, list[Overload]]


def function(params: tuple[Type, ...], result: Type, call: Callable[..., Any]) -> Overload:
    """`name(…)`."""
    return Overload(params, result, call, member=False)


def method(params: tuple[Type, ...], result: Type, call: Callable[..., Any]) -> Overload:
    """`receiver.name(…)`."""
    return Overload(params, result, call, member=True)
