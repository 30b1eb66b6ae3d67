"""Quantities of resources: rounded, compared and added."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from devcluster.quantity import parse_quantity

__all__ = ["is_whole", "round_up", "value_of"]


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
    return parse_quantity(str(quantity)) or Fraction(0)
