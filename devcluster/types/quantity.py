"""The canonical form of quantities (`500m`, `1Gi`, `1e3`), as the server shows them."""

from __future__ import annotations

import functools
import re
from fractions import Fraction

__all__ = ["InvalidQuantity", "canonical"]

_PATTERN = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?+(.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,9})")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIX = {power: suffix for suffix, power in _BINARY.items()} | {0: ""}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_SUFFIX = re.compile(r"[eEinumkKMGTP]*[-+]?[0-9]*")
_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_LIMIT = 2**63 - 1
_TOO_LONG = 1000  # longer numbers are never meant, and would take time
_DIGITS_KEPT = 18
_BINARY_DIGITS_KEPT = 15


class InvalidQuantity(ValueError):
    """Not a quantity; the text is the server's."""


@functools.lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """Return the canonical quantity: no fraction, the largest suffix that fits, nothing below nano.

    Raises:
        InvalidQuantity: the text is not a quantity.
    """
    match = _PATTERN.fullmatch(text)
    if match is None or not 0 < len(text) < _TOO_LONG:
        raise InvalidQuantity(_FORMAT)
    sign, whole, part, suffix = match[1], match[2].lstrip("0") or "0", match[3] or "", match[4]
    if _SUFFIX.fullmatch(suffix) is None:
        raise InvalidQuantity(_FORMAT)
    digits = Fraction(int(whole + part), 10 ** len(part)) * (-1 if sign == "-" else 1)
    if suffix in _BINARY:
        if not part and _is_plain_binary(whole, _BINARY[suffix]):
            return text
        return _binary(_nanos(digits * 1024 ** _BINARY[suffix]))
    exponent = _EXPONENT.fullmatch(suffix)
    if suffix not in _DECIMAL and exponent is None:
        raise InvalidQuantity("unable to parse quantity's suffix")
    power = int(exponent[1]) if suffix not in _DECIMAL and exponent is not None else _DECIMAL[suffix]
    if _is_plain_decimal(whole, part, power):
        return text
    power = max(-60, min(60, power))  # beyond the kept digits either way
    return _decimal(_nanos(digits * Fraction(10) ** power), exponent=suffix not in _DECIMAL)


def _is_plain_decimal(whole: str, part: str, power: int) -> bool:
    """Return whether the server takes the text as canonical, even with a sign, a dot or zeros."""
    scale = power - len(part)
    shifted = whole + part
    return (
        len(shifted) <= _DIGITS_KEPT
        and scale >= min(_DECIMAL_SUFFIX)
        and scale % 3 == 0
        and not shifted.endswith("000")
        and shifted[0] != "0"
    )


def _is_plain_binary(whole: str, power: int) -> bool:
    """Return whether a whole number with a binary suffix is canonical already."""
    return len(whole) + 3 * power < _BINARY_DIGITS_KEPT and int(whole) & 7 != 0


def _nanos(value: Fraction) -> int:
    """Return the value in billionths, rounded away from zero."""
    scaled = abs(value) * 10**9
    rounded = -(-scaled.numerator // scaled.denominator)
    return -rounded if value < 0 else rounded


def _decimal(nanos: int, *, exponent: bool) -> str:
    if nanos == 0:
        return "0"
    power = -9
    while nanos % 1000 == 0 and (exponent or power < max(_DECIMAL_SUFFIX)):
        nanos //= 1000
        power += 3
    if exponent:
        return f"{nanos}e{power}" if power else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIX[power]}"


def _binary(nanos: int) -> str:
    if abs(nanos) < 1024 * 10**9:
        return _decimal(nanos, exponent=False)
    value = min(-(-abs(nanos) // 10**9), _LIMIT)
    power = 0
    while value % 1024 == 0 and power < max(_BINARY_SUFFIX):
        value //= 1024
        power += 1
    return f"{'-' if nanos < 0 else ''}{value}{_BINARY_SUFFIX[power]}"
