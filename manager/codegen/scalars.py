"""The limits of strings and numbers, where the server's words differ from JSON Schema's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from manager.codegen.errors import ModelError
from manager.codegen.keywords import FORMATS
from manager.codegen.model_schema import JsonSchema

__all__ = ["bounds", "checked_format", "checked_pattern", "enum_type"]

# Look-around and back-references: Python has them, the server's regular expressions do not.
_FOREIGN_PATTERN = re.compile(r"\(\?(=|!|<=|<!)|\\[1-9]")
_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def bounds(node: JsonSchema) -> JsonSchema:
    """Return the node's bounds in the server's words, in which an exclusive bound is a bound with a mark.

    The range that the format already implies is left out.
    """
    lowest, highest = _RANGES.get(node.get("format", ""), (None, None))
    found: JsonSchema = {}
    minimum, above = node.get("minimum"), node.get("exclusiveMinimum")
    if above is not None and (minimum is None or above >= minimum):
        found.update(minimum=above, exclusiveMinimum=True)
    elif minimum is not None and minimum != lowest:
        found.update(minimum=minimum)
    maximum, below = node.get("maximum"), node.get("exclusiveMaximum")
    if below is not None and (maximum is None or below <= maximum):
        found.update(maximum=below, exclusiveMaximum=True)
    elif maximum is not None and maximum != highest:
        found.update(maximum=maximum)
    return found


def checked_format(name: str, field: str) -> str:
    """Return the format; raises ModelError for one that the server does not know by that meaning."""
    if name not in FORMATS:
        hint = "; use str with a pattern" if name in {"duration", "time", "binary"} else ""
        raise ModelError(field, f"the server has no format {name!r} of this meaning{hint}")
    return name


def checked_pattern(pattern: str, field: str) -> str:
    """Return the pattern; raises ModelError for what the server's regular expressions lack."""
    foreign = _FOREIGN_PATTERN.search(pattern)
    if foreign:
        raise ModelError(field, f"the server's regular expressions have no {foreign.group()!r}")
    return pattern


def enum_type(values: Sequence[Any], field: str) -> str:
    """Return the one type of an enum's values; raises ModelError when they differ."""
    types = {_JSON_TYPES.get(type(value), "object") for value in values}
    if len(types) != 1:
        raise ModelError(field, "the values of an enum must all be of one type")
    return types.pop()
