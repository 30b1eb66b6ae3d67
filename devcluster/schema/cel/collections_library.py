"""Functions of lists and sets: Kubernetes' own, and the extensions that it enables."""

from __future__ import annotations

import functools
import itertools
from typing import Any

from devcluster.schema.cel.errors import CelError
from devcluster.schema.cel.functions import Table, function, method
from devcluster.schema.cel.operators import OPERATORS
from devcluster.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    list_of,
    optional_of,
)
from devcluster.schema.cel.values import NONE, Duration, Optional, compare, equal

__all__ = ["FUNCTIONS"]

_add = OPERATORS["_+_"][0].call
_COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
_LIST = list_of(A)
_RANGE_LIMIT = 100_000


def _is_sorted(items: list[Any]) -> bool:
    return all(compare(one, other) <= 0 for one, other in itertools.pairwise(items))


def _sum(items: list[Any]) -> Any:
    if not items:
        return 0
    return functools.reduce(_add, items)


def _extreme(items: list[Any], wanted: int, name: str) -> Any:
    if not items:
        raise CelError(f"{name} called on empty list")
    return functools.reduce(lambda best, each: each if compare(each, best) == wanted else best, items)


def _index_of(items: list[Any], item: Any) -> int:
    return next((at for at, each in enumerate(items) if equal(each, item)), -1)


def _last_index_of(items: list[Any], item: Any) -> int:
    return next((at for at in reversed(range(len(items))) if equal(items[at], item)), -1)


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    found: list[Any] = []
    for each in items:
        if isinstance(each, list) and depth > 0:
            found.extend(_flatten(each, depth - 1))
        else:
            found.append(each)
    return found


def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for each in items:
        if not any(equal(each, have) for have in found):
            found.append(each)
    return found


def _sort(items: list[Any]) -> list[Any]:
    return sorted(items, key=functools.cmp_to_key(compare))


def _range(size: int) -> list[int]:
    if size > _RANGE_LIMIT:
        raise CelError("operation cancelled: actual cost limit exceeded")
    return list(range(size))


def _first(items: list[Any]) -> Optional:
    return Optional(items[0]) if items else NONE


def _last(items: list[Any]) -> Optional:
    return Optional(items[-1]) if items else NONE


def _has_all(items: list[Any], wanted: list[Any]) -> bool:
    return all(any(equal(each, have) for have in items) for each in wanted)


def _same_members(one: list[Any], other: list[Any]) -> bool:
    return _has_all(one, other) and _has_all(other, one)


def _intersects(one: list[Any], other: list[Any]) -> bool:
    return any(equal(each, have) for each in one for have in other)


FUNCTIONS: Table = {
    "isSorted": [method((list_of(each),), BOOL, _is_sorted) for each in _COMPARABLE],
    "sum": [
        method((list_of(INT),), INT, _sum),
        method((list_of(UINT),), UINT, _sum),
        method((list_of(DOUBLE),), DOUBLE, lambda items: _sum(items) if items else 0.0),
        method((list_of(DURATION),), DURATION, lambda items: _sum(items) if items else Duration(0)),
    ],
    "min": [method((list_of(each),), each, lambda items: _extreme(items, -1, "min")) for each in _COMPARABLE],
    "max": [method((list_of(each),), each, lambda items: _extreme(items, 1, "max")) for each in _COMPARABLE],
    "indexOf": [method((_LIST, A), INT, _index_of)],
    "lastIndexOf": [method((_LIST, A), INT, _last_index_of)],
    "slice": [method((_LIST, INT, INT), _LIST, _slice)],
    "flatten": [
        method((list_of(_LIST),), _LIST, _flatten),
        method((list_of(DYN), INT), list_of(DYN), _flatten),
    ],
    "distinct": [method((_LIST,), _LIST, _distinct)],
    "reverse": [method((_LIST,), _LIST, lambda items: items[::-1])],
    "sort": [method((list_of(each),), list_of(each), _sort) for each in _COMPARABLE],
    "first": [method((_LIST,), optional_of(A), _first)],
    "last": [method((_LIST,), optional_of(A), _last)],
    "lists.range": [function((INT,), list_of(INT), _range)],
    "sets.contains": [function((_LIST, _LIST), BOOL, _has_all)],
    "sets.equivalent": [function((_LIST, _LIST), BOOL, _same_members)],
    "sets.intersects": [function((_LIST, _LIST), BOOL, _intersects)],
}
