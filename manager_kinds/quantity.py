"""Quantities in the Kubernetes API's notation for bytes and other amounts: `10Gi`, `1.5G`, `500m`, `2e9`."""

from __future__ import annotations

import re
from fractions import Fraction

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<digits>[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,2}))?"
)
_SUFFIXES = {
    **{suffix: Fraction(10) ** (3 * power) for power, suffix in enumerate("num", start=-3)},
    **{suffix: Fraction(10) ** (3 * power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(2) ** (10 * power) for power, suffix in enumerate("KMGTPE", start=1)},
}


def parse_quantity(text: str) -> Fraction:
    """Return the exact amount, which can be compared and added: `1Gi` equals `1024Mi`.

    Raises ValueError for an invalid quantity.
    """
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(f"not a quantity: {text!r}")
    amount = Fraction("0" + found["digits"].rstrip("."))
    if found["suffix"]:
        amount *= _SUFFIXES[found["suffix"]]
    elif found["exponent"]:
        amount *= Fraction(10) ** int(found["exponent"])
    return -amount if found["sign"] == "-" else amount
