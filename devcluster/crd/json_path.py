"""Evaluation of JSONPath in CustomResourceDefinitions, such as `.spec.ports[0].name` or `['spec']`."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from devcluster.kinds.resource import Column
from devcluster.quantity import show_float

_STEP = re.compile(
    r"""\.?\[\?\(\s*@\.(?P<filter>[\w.\-/]+)\s*(?P<operator>==|!=|<=|>=|<|>)\s*(?P<literal>"[^"]*"|'[^']*'|[^)\s](?:[^)]*[^)\s])?)\s*\)\]
    |\.?\[(?P<slice>-?\d*:-?\d*(?::\d+)?)\]
    |\.?\[(?P<index>(?:-?\d+)?)\]
    |\.?\[\s*(?P<quoted>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")\s*\]
    |\.?\[(?P<every>\*)\]
    |\.\.(?P<deep>(?:\\.|[^.\[\]\\])+)
    |\.(?P<star>\*)
    |\.(?P<name>(?:\\.|[^.\[\]\\])+)""",
    re.VERBOSE,
)

Step = Callable[[Any], Iterable[Any]]


def cell(obj: Any, column: Column) -> Any:
    """Return the cell of a custom kind's printer column, or None; a date stays a text."""
    found = find(obj, column.json_path)
    if not found:
        return None
    value = found[0]
    if column.type == "string":
        return _printed(value)
    if column.type == "integer":
        return int(value) if _is_number(value) else None
    if column.type == "number":
        return value if _is_number(value) else None
    if column.type == "boolean":
        return value if type(value) is bool else None
    return value if isinstance(value, str) else None


def find(obj: Any, path: str) -> list[Any]:
    """Return the values at `path`: none if a step is missing, several for a wildcard, slice or filter."""
    values = [obj]
    for step in _compile(path):
        values = [found for value in values for found in step(value)]
    return values


def nested(obj: Any, path: str) -> Any:
    """Return the value at a simple path such as `.spec.replicas`, or None if it is missing."""
    for name in path.removeprefix(".").split("."):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(name)
    return obj


@functools.lru_cache(maxsize=4096)
def _compile(path: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    at = 0
    while at < len(path) and path[at:] != ".":
        matched = _STEP.match(path, at)
        if matched is None:
            return (_nothing,)
        at = matched.end()
        try:
            steps.append(_step(matched))
        except ValueError:  # a number with thousands of digits, or `-` without digits
            return (_nothing,)
    return tuple(steps)


def _nothing(_: Any) -> Iterable[Any]:
    return ()


def _step(matched: re.Match[str]) -> Step:
    kind, text = str(matched.lastgroup), matched[str(matched.lastgroup)]
    if kind == "literal":
        return _filter(matched["filter"], matched["operator"], text)
    if kind == "slice":
        bounds = [int(each) if each else None for each in text.split(":")]
        valid = 0 not in bounds[2:]  # with the step 0, Go finds nothing
        return lambda value: value[slice(*bounds)] if isinstance(value, list) and valid else ()
    if kind == "index":
        index = int(text or "0")  # `[]` is the first item
        return lambda value: (
            [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else ()
        )
    if kind in {"every", "star"}:
        return _children
    if kind == "quoted":  # an unescaped dot in it also separates names
        return lambda value: find(value, f".{text[1:-1]}")
    name = re.sub(r"\\(.)", r"\1", text)
    if kind == "deep":
        return lambda value: _deep(value, name)
    return lambda value: [value[name]] if isinstance(value, dict) and value.get(name) is not None else ()


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _deep(value: Any, name: str) -> Iterable[Any]:
    if isinstance(value, dict) and name in value:
        yield value[name]
    for each in _children(value):
        yield from _deep(each, name)


def _filter(path: str, operator: str, literal: str) -> Step:
    wanted: Any
    if literal[0] in "\"'":
        wanted = literal[1:-1]
    else:
        try:
            wanted = json.loads(literal)
        except ValueError:
            wanted = literal

    def step(value: Any) -> Iterable[Any]:
        for each in value if isinstance(value, list) else ():
            found = find(each, f".{path}")
            if found and _holds(found[0], operator, wanted):
                yield each

    return step


def _holds(value: Any, operator: str, wanted: Any) -> bool:
    if operator == "==":
        return type(value) is type(wanted) and bool(value == wanted)
    if operator == "!=":
        return type(value) is not type(wanted) or bool(value != wanted)
    if isinstance(value, str) != isinstance(wanted, str) or not isinstance(value, str | int | float):
        return False
    order = (value > wanted) - (value < wanted)
    return bool({"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[operator])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and type(value) is not bool


def _printed(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return show_float(value)
    return (
        str(value)
        if isinstance(value, int)
        else json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    )
