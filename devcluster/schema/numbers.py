"""Validation of numbers: bounds, multiples and ranges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from devcluster.errors import field_invalid
from devcluster.go_numbers import show_float
from devcluster.schema.problems import UNSET_FIELD, Check, Problem, Spine, path_of

__all__ = ["check_number", "is_whole"]

_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_LARGEST_FLOAT32 = 3.4028235677973366e38
_WHOLE_LIMIT = 2**53 - 1


def is_whole(value: float) -> bool:
    """Return whether a JSON number with a fraction or exponent is an integer."""
    return math.isfinite(value) and value == int(value) and abs(value) <= _WHOLE_LIMIT


def check_number(source: Any, types: tuple[str, ...], shape: str) -> Check | None:
    """Return the check of a node's numbers; None when every number is valid."""
    low, high, factor = source.get("minimum"), source.get("maximum"), source.get("multipleOf")
    kind = types[0] if len(types) == 1 and types[0] in {"integer", "number"} else ""
    form = shape if kind else ""
    fits = _range_of(kind, form)
    if low is None and high is None and factor is None and fits is None:
        return None
    open_low, open_high = bool(source.get("exclusiveMinimum")), bool(source.get("exclusiveMaximum"))
    unfit = [] if fits is None else _unfit(source, fits, kind)

    def check(value: Any, spine: Spine, out: list[Problem]) -> None:
        if type(value) is not int and type(value) is not float:
            return
        if fits is not None and not fits(value):
            out.append(_out_of_range(spine, "Checked", kind, form))
        out.extend(_out_of_range(spine, each, kind, form) for each in unfit)
        whole = type(value) is int
        if factor is not None:
            by_whole = whole and "MultipleOf" not in unfit
            if by_whole and int(factor) <= 0:
                out.append(_factor(spine, int(factor)))
            elif not _is_multiple(value if by_whole else float(value), factor):
                out.append(_bound(spine, value, "should be a multiple of", factor, whole=by_whole))
        if high is not None:
            by_whole = whole and "Maximum boundary" not in unfit
            bound = _as_int64(high) if by_whole else high
            if value >= bound if open_high else value > bound:
                text = "should be less than" if open_high else "should be less than or equal to"
                out.append(_bound(spine, value, text, bound, whole=by_whole))
        if low is not None:
            by_whole = whole and "Minimum boundary" not in unfit
            bound = _as_int64(low) if by_whole else low
            if value <= bound if open_low else value < bound:
                text = "should be greater than" if open_low else "should be greater than or equal to"
                out.append(_bound(spine, value, text, bound, whole=by_whole))

    return check


def _unfit(source: Any, fits: Callable[[float], bool], kind: str) -> list[str]:
    """Return errors for limits that the type cannot hold; because of them the server refuses every value."""
    limits = (("MultipleOf", "multipleOf"), ("Maximum boundary", "maximum"), ("Minimum boundary", "minimum"))
    found = []
    for shown, name in limits:
        value = source.get(name)
        if value is None:
            continue
        # The server holds limits as floats, so the ends of int64 are out of range.
        value = float(value)
        if not fits(value) or (kind == "integer" and not -(2.0**63) < value < 2.0**63):
            found.append(shown)
    return found


def _as_int64(bound: float) -> float:
    """Return the bound of whole numbers. In Go, one that does not fit becomes the least."""
    return bound if -(2.0**63) < float(bound) < 2.0**63 else -(2**63)


def _range_of(kind: str, form: str) -> Callable[[float], bool] | None:
    if kind == "integer":
        smallest, largest = _RANGES[form or "int64"]
        return lambda value: smallest <= value <= largest and value == int(value)
    if form == "float":
        return lambda value: abs(value) <= _LARGEST_FLOAT32
    return None


def _is_multiple(value: float, factor: float) -> bool:
    if type(value) is int:
        return value % int(factor) == 0
    return is_whole(1 / factor * value if factor < 1 else value / factor)


def _bound(spine: Spine, value: float, text: str, bound: float, *, whole: bool) -> Problem:
    name = path_of(spine)
    shown = str(int(bound)) if whole else show_float(bound)
    return Problem(spine, name, lambda field: field_invalid(field, value, f"{name} in body {text} {shown}"))


def _factor(spine: Spine, factor: int) -> Problem:
    # Like the real server, this compares an integer with the integer part of the factor.
    name = path_of(spine)
    text = f"factor MultipleOf declared for {name} must be positive: {factor}"
    return Problem(spine, name, lambda field: field_invalid(field, factor, text))


def _out_of_range(spine: Spine, what: str, kind: str, form: str) -> Problem:
    with_format = f"with format {form}" if form else "(default format)"
    text = f"{what} value must be of type {kind} {with_format} in {path_of(spine)}"
    return Problem(spine, "", lambda _: field_invalid(UNSET_FIELD, "", text))
