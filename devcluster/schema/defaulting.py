"""Pruning of unknown fields, and defaulting."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from devcluster.schema.node import UNSET, Schema

_METADATA = frozenset({"apiVersion", "kind", "metadata"})
_NOTHING = Schema()


def prune(obj: Any, schema: Schema, *, root: bool = True) -> list[str]:
    """Remove unknown fields from `obj`, in place; return their paths, sorted (`spec.ports[0].nmae`).

    `apiVersion`, `kind` and `metadata` stay in embedded resources and, with `root`, at the top. The
    result never lists a field of these names at the top.
    """
    removed: list[str] = []
    _prune(obj, schema, "", removed, root)
    removed.sort()
    return removed


def _prune(value: Any, schema: Schema | None, path: str, removed: list[str], root: bool) -> None:
    if type(value) is dict:
        _prune_fields(value, schema or _NOTHING, path, removed, root)
    elif type(value) is list:
        if schema is not None and schema.preserve_unknown:
            _skip(value, schema, path, removed)
            return
        items = schema.items if schema is not None else None
        for index, each in enumerate(value):
            if type(each) is dict or type(each) is list:
                _prune(each, items, f"{path}[{index}]", removed, False)


def _prune_fields(value: dict[str, Any], schema: Schema, path: str, removed: list[str], root: bool) -> None:
    keep = root or schema.embedded
    properties, additional = schema.properties, schema.additional
    unknown: list[str] = []
    for name, each in value.items():
        if keep and name in _METADATA:
            continue
        child = properties.get(name, additional)
        if child is not None:
            if type(each) is dict or type(each) is list:
                _prune(each, child, f"{path}.{name}" if path else name, removed, False)
        elif not schema.preserve_unknown:
            unknown.append(name)
    for name in unknown:
        del value[name]
        if path or name not in _METADATA:
            removed.append(f"{path}.{name}" if path else name)


def _skip(value: list[Any], schema: Schema, path: str, removed: list[str]) -> None:
    # In a preserved list, only the items' known fields are visited.
    if schema.items is None:
        return
    for index, each in enumerate(value):
        if type(each) is dict:
            for name, field in each.items():
                child = schema.items.properties.get(name, schema.items.additional)
                if child is not None:
                    _prune(field, child, f"{path}[{index}].{name}", removed, False)
        elif type(each) is list:
            _skip(each, schema.items, f"{path}[{index}]", removed)


_INTEGERS = 1 << 63
_SCALARS = (str, int, float, bool)


def default(obj: Any, schema: Schema) -> None:
    """Remove the nulls of fields that are not nullable, and fill in the defaults of `obj`, in place."""
    drop_nulls(obj, schema, root=True)
    fill = compile_defaults(schema)
    if fill is not None:
        fill(obj)


def drop_nulls(value: Any, schema: Schema | None, *, root: bool = False) -> None:
    """Remove the nulls of fields that are not nullable and have no default, in place.

    Floats with an integer value become integers, since Go's JSON has no `5.0`, and integers with more than 64
    bits become floats. With `root`, `value` is a whole object, and its metadata stays as it is.
    """
    if type(value) is dict:
        properties = schema.properties if schema is not None else {}
        additional = schema.additional if schema is not None else None
        stray: list[str] | None = None
        for name, each in value.items():
            if each is None:
                child = properties.get(name, additional)
                if child is not None and not child.nullable and child.default is UNSET:
                    stray = [*(stray or ()), name]
            elif type(each) is dict or type(each) is list:
                if not root or name != "metadata":
                    drop_nulls(each, properties.get(name, additional))
            elif type(each) is float or type(each) is int:
                value[name] = _as_go_reads(each)
        for name in stray or ():
            del value[name]
    elif type(value) is list:
        items = schema.items if schema is not None else None
        for index, each in enumerate(value):
            if type(each) is dict or type(each) is list:
                drop_nulls(each, items)
            else:
                value[index] = _as_go_reads(each)


def _as_go_reads(value: Any) -> Any:
    """Return a number as Go reads it: a whole number of 64 bits as an integer, any other as a float."""
    if type(value) is float and value.is_integer() and abs(value) < _INTEGERS:
        return int(value)
    return float(value) if type(value) is int and value >= _INTEGERS else value


Fill = Callable[[Any], None]


def compile_defaults(schema: Schema) -> Fill | None:
    """Return a function that fills in the defaults of `schema` in place, or None if it has no defaults."""
    own = [
        (name, _maker(each.default), each.nullable)
        for name, each in schema.properties.items()
        if each.default is not UNSET
    ]
    below = [(name, inner) for name, each in schema.properties.items() if (inner := compile_defaults(each))]
    values = _compile_values(schema.additional, frozenset(schema.properties))
    items = _compile_items(schema.items)
    if not (own or below or values or items):
        return None

    def fill(value: Any) -> None:
        if type(value) is dict:
            for name, make, nullable in own:
                if name not in value or (value[name] is None and not nullable):
                    value[name] = make()
            for name, inner in below:
                each = value.get(name)
                if type(each) is dict or type(each) is list:
                    inner(each)
            if values is not None:
                values(value)
        elif items is not None and type(value) is list:
            items(value)

    return fill


def _compile_values(schema: Schema | None, named: frozenset[str]) -> Callable[[dict[str, Any]], None] | None:
    if schema is None:
        return None
    inner = compile_defaults(schema)
    make = None if schema.default is UNSET or schema.nullable else _maker(schema.default)
    if inner is None and make is None:
        return None

    def fill(value: dict[str, Any]) -> None:
        for name, each in value.items():
            if name in named:
                continue
            if make is not None and each is None:
                value[name] = make()
            if inner is not None:
                inner(value[name])

    return fill


def _compile_items(schema: Schema | None) -> Callable[[list[Any]], None] | None:
    if schema is None:
        return None
    inner = compile_defaults(schema)
    make = None if schema.default is UNSET or schema.nullable else _maker(schema.default)
    if inner is None and make is None:
        return None

    def fill(value: list[Any]) -> None:
        for index, each in enumerate(value):
            if make is not None and each is None:
                value[index] = make()
            if inner is not None:
                inner(value[index])

    return fill


def _maker(value: Any) -> Callable[[], Any]:
    if isinstance(value, _SCALARS):
        return lambda: value
    return lambda: copy.deepcopy(value)
