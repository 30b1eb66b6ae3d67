"""The amount that a quantity such as `500m`, `1Gi` or `1e3` stands for."""

from __future__ import annotations

import re
from fractions import Fraction

__all__ = ["parse_quantity"]

_QUANTITY = re.compile(
    r"([+-]?)([0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?[0-9]{1,9}|)"
)
_SCALES = {
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("n", "u", "m", "", *"kMGTPE"), -3)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
_EXPONENT_LIMIT = 1000
"""Powers beyond it count as this one, since larger numbers take time."""
_LENGTH_LIMIT = 1000


def parse_quantity(text: str) -> Fraction | None:
    """Return the exact amount; None for a text that is no quantity."""
    matched = _QUANTITY.fullmatch(text) if len(text) < _LENGTH_LIMIT else None
    if matched is None:
        return None
    sign, digits, suffix = matched.groups()
    scale = _SCALES.get(suffix)
    if scale is None:
        exponent = max(-_EXPONENT_LIMIT, min(_EXPONENT_LIMIT, int(suffix[1:])))
        scale = Fraction(10) ** exponent
    amount = Fraction(digits.rstrip(".")) * scale
    return -amount if sign == "-" else amount
