"""Values of quantities such as `500m`, `1Gi`, `1e3`, for comparison."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any, Final

__all__ = ["is_whole", "round_up", "value_of"]

_QUANTITY = re.compile(r"([+-]?)(\d++(?:\.\d*+)?|\.\d++)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d+)?")

_BINARY = {f"{each}i": Fraction(1024**power) for power, each in enumerate("KMGTPE", 1)}
_DECIMAL = {each: Fraction(1000**power) for power, each in enumerate("kMGTPE", 1)}
_SMALL = {"m": Fraction(1, 10**3), "u": Fraction(1, 10**6), "n": Fraction(1, 10**9)}
_FACTORS: Final = {"": Fraction(1), **_BINARY, **_DECIMAL, **_SMALL}


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
    """Return a quantity's value; 0 for invalid text, which decoding has refused already."""
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None:
        return Fraction(0)
    sign, digits, suffix = match.group(1), match.group(2), match.group(3) or ""
    factor = _FACTORS.get(suffix) or Fraction(10) ** int(suffix[1:])
    value = Fraction(digits.rstrip(".")) * factor
    return -value if sign == "-" else value
