"""Uniqueness in lists that are sets or maps (`x-kubernetes-list-type`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from devcluster.errors import FieldError, field_duplicate, field_invalid
from devcluster.schema.node import Schema

__all__ = ["compile_uniqueness"]

Check = Callable[[Any, str, list[FieldError]], None]


def compile_uniqueness(schema: Schema) -> Check | None:
    """Return a function that appends an error for each duplicate item; None if duplicates are allowed."""
    named = {name: inner for name, each in schema.properties.items() if (inner := compile_uniqueness(each))}
    values = compile_uniqueness(schema.additional) if schema.additional is not None else None
    items = compile_uniqueness(schema.items) if schema.items is not None else None
    own = schema.list_type if schema.list_type in {"set", "map"} else ""
    keys = schema.list_map_keys
    if not (named or values or items or own):
        return None

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if type(value) is dict:
            for name, each in value.items():
                member = named.get(name)
                if member is not None:
                    member(each, f"{path}.{name}" if path else name, errors)
                elif values is not None and name not in schema.properties:
                    values(each, f"{path}[{name}]", errors)
        elif type(value) is list:
            if own == "set" and len(value) > 1:
                _find_repeated(value, value, path, errors)
            elif own == "map":
                _check_map(value, keys, path, errors)
            if items is not None:
                for index, each in enumerate(value):
                    items(each, f"{path}[{index}]", errors)

    return check


def _check_map(value: list[Any], keys: tuple[str, ...], path: str, errors: list[FieldError]) -> None:
    for index, each in enumerate(value):
        if each is not None and type(each) is not dict:
            text = "must be an object for an array of list-type map"
            errors.append(field_invalid(f"{path}[{index}]", each, text))
            return
    if len(value) > 1:
        named = [
            {key: each[key] for key in keys if key in each} if each is not None else {} for each in value
        ]
        _find_repeated(named, named, path, errors)


def _find_repeated(values: list[Any], shown: list[Any], path: str, errors: list[FieldError]) -> None:
    seen: dict[bytes, int] = {}
    for index, each in enumerate(values):
        text = orjson.dumps(each, option=orjson.OPT_SORT_KEYS)
        times = seen[text] = seen.get(text, 0) + 1
        if times == 2:  # noqa: PLR2004 -- the first repetition is reported, further ones are not
            errors.append(field_duplicate(f"{path}[{index}]", shown[index]))
