"""Quantities of resources: rounded, compared and added."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

from devcluster.quantity import parse_quantity
from devcluster.types.quantity import canonical

__all__ = ["is_whole", "quantity_text", "round_up", "value_of"]


def round_up(amounts: dict[str, Any] | None) -> None:
    """Round each amount of a list of resources up to thousandths, in place: no finer ones are kept."""
    for name, amount in (amounts or {}).items():
        if isinstance(amount, str) and amount[-1:] in {"n", "u"}:
            milli = math.ceil(value_of(amount) * 1000)
            amounts[name] = str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"  # type: ignore[index]


def is_whole(quantity: Any) -> bool:
    """Return whether a quantity is a whole number."""
    return value_of(quantity).denominator == 1


def value_of(quantity: Any) -> Fraction:
    """Return the amount; 0 for a value that is no quantity (decoding has refused those already)."""
    return _value(str(quantity))


@functools.lru_cache(maxsize=4096)
def _value(text: str) -> Fraction:
    return parse_quantity(text) or Fraction(0)


def quantity_text(value: Fraction, *, binary: bool) -> str:
    """Return a sum in the form of quantities: with the largest suffix that needs no fraction."""
    if not binary or value.denominator != 1:
        return canonical(f"{math.ceil(value * 1000)}m")
    number = int(value)
    for suffix in ("", "Ki", "Mi", "Gi", "Ti", "Pi"):
        if number % 1024 or not number:
            return f"{number}{suffix}"
        number //= 1024
    return f"{number}Ei"
