"""Numbers and texts in Go's format, and amounts of quantities such as `500m`."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

_SMALLEST_PLAIN = -4
_LARGEST_PLAIN = 5
_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,20})")
_NEEDS_NO_ESCAPE = re.compile(r"[ !#-\[\]-~]*")
_ESCAPES = {
    "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v",
    '"': r"\"", "\\": r"\\",
}  # fmt: skip
_ASCII = 0x7F
_TWO_BYTES = 0xFFFF


def quoted(text: str) -> str:
    """Quote a text as Go's `%q` does."""
    return f'"{text if _NEEDS_NO_ESCAPE.fullmatch(text) else "".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code <= _ASCII:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _TWO_BYTES else f"\\U{code:08x}"


def parse_integer(text: str) -> int | None:
    """Parse a decimal integer as Go does: ASCII digits, at most 20 besides leading zeros, without spaces.

    Returns None for any other text. Python's `int` also takes `1_0`, and fails for thousands of digits.
    """
    matched = _INTEGER.fullmatch(text)
    return None if matched is None else int(matched[1] + matched[2])


def show_float(value: float) -> str:
    """Format a float as Go's `%v` does: `0.5`, `3`, `1e+06`."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    if not value:
        return "0"
    digits, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
    magnitude = int(exponent)
    if _SMALLEST_PLAIN <= magnitude <= _LARGEST_PLAIN:
        decimals = max(0, len(digits.lstrip("-").replace(".", "")) - 1 - magnitude)
        return f"{value:.{decimals}f}"
    return f"{digits}e{exponent[0]}{exponent[1:].zfill(2)}"


_QUANTITY = re.compile(
    r"([+-]?)([0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?[0-9]{1,9}|)"
)
_SCALES = {
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("n", "u", "m", "", *"kMGTPE"), -3)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
_EXPONENT_LIMIT = 1000
"""The largest exponent that is computed; larger ones are reduced to it, since large numbers take time."""
_LENGTH_LIMIT = 1000


def parse_quantity(text: str) -> Fraction | None:
    """Return the exact amount of a quantity, or None if the text is not a quantity."""
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
