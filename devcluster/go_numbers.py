"""Numbers in Go's format, for messages."""

from __future__ import annotations

import math

__all__ = ["show_float"]

_SMALLEST_PLAIN = -4
_LARGEST_PLAIN = 5


def show_float(value: float) -> str:
    """Format a float as Go's `%v` does: `0.5`, `3`, `1e+06`."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    if not value:
        return "0"
    digits, _, exponent = f"{value:.17e}".partition("e")
    for precision in range(17):
        text = f"{value:.{precision}e}"
        if float(text) == value:
            digits, _, exponent = text.partition("e")
            break
    magnitude = int(exponent)
    if _SMALLEST_PLAIN <= magnitude <= _LARGEST_PLAIN:
        decimals = max(0, len(digits.lstrip("-").replace(".", "")) - 1 - magnitude)
        return f"{value:.{decimals}f}"
    return f"{digits}e{exponent}"
