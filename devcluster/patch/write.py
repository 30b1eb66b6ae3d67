"""Description of a write, and the check that a schema declares all fields of an object."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from devcluster.patch.fields import Fields, exclude, of_paths, shown
from devcluster.patch.go_format import format_sharp, format_v, type_name
from devcluster.patch.shape import NotConverted, Shape, Untypable, is_builtin, root_shape
from devcluster.schema.node import Schema


def shape_errors(value: Any, shape: Shape) -> str:
    """Return the errors of a value that does not fit its shape, as the real server prints them, or ""."""
    errors = [f"{path}: {text}" if path else text for path, text in _errors(value, shape)]
    if len(errors) <= 1:
        return "".join(errors)
    return "\n  ".join(["errors:", *errors])


def check_declared(value: Any, shape: Shape) -> None:
    """Raise Untypable if the schema does not declare a field of the value."""
    if isinstance(value, dict):
        if not shape.is_map:
            return
        for name, below in value.items():
            child = shape.fields.get(name) or shape.element
            if child is None:
                raise Untypable(f".{name}: field not declared in schema")
            _check_below(f".{name}", below, child)
    elif isinstance(value, list) and shape.is_list:
        for index, item in enumerate(value):
            step = f"[{index}]" if shape.atomic_list else shown(shape.key_of(item))
            _check_below(step, item, shape.item)


def _check_below(step: str, value: Any, shape: Shape) -> None:
    try:
        check_declared(value, shape)
    except Untypable as error:
        raise Untypable(f"{step}{error}") from None


def _errors(value: Any, shape: Shape) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    if isinstance(value, dict) and shape.is_map:
        for name, below in value.items():
            child = shape.fields.get(name) or shape.element
            if child is None:
                yield f".{name}", "field not declared in schema"
                return
            for path, text in _errors(below, child):
                yield f".{name}{path}", text
    elif isinstance(value, list) and shape.is_list:
        yield from _list_errors(value, shape)
    elif isinstance(value, dict | list) or not shape.scalar:
        if shape.is_map:
            yield "", f"expected map, got {_pointer(value)}"
        elif shape.scalar:
            yield "", _scalar_error(value, shape.scalar)
        else:
            yield "", f"expected list, got {_pointer(value)}"
    elif not _fits(value, shape.scalar):
        yield "", _scalar_error(value, shape.scalar)


def _list_errors(value: list[Any], shape: Shape) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for index, item in enumerate(value):
        step = f"[{index}]"
        if not shape.atomic_list:
            try:
                key = shape.key_of(item)
            except Untypable as error:
                yield "", f"element {index}: {error}"
                return
            step = shown(key)
            if key in seen:
                yield "", f"duplicate entries for key {step}"
            seen.add(key)
        for path, text in _errors(item, shape.item):
            yield f"{step}{path}", text


def _fits(value: Any, scalar: str) -> bool:
    if isinstance(value, bool):
        return scalar in {"boolean", "untyped"}
    if isinstance(value, str):
        return scalar in {"string", "untyped"}
    return scalar in {"numeric", "untyped"}


def _scalar_error(value: Any, scalar: str) -> str:
    if scalar == "numeric":
        return f"expected numeric (int or float), got {type_name(value)}"
    if scalar == "string":
        return f"expected string, got &value.valueUnstructured{{Value:{format_sharp(value)}}}"
    if scalar == "boolean":
        return f"expected boolean, got {_pointer(value)}"
    return f"expected any scalar, got {_pointer(value)}"


def _pointer(value: Any) -> str:
    return f"&{{{format_v(value)}}}"


Object = dict[str, Any]

Convert = Callable[[Object, str], tuple[Object, Schema] | None]
"""Converts an object to an `apiVersion`; returns the object and that version's schema, or None if the version
is not served.
"""


Path = str | tuple[str, ...]
"""The path of a field: a top-level name, or the names of all steps."""


@functools.lru_cache(maxsize=64)
def _fields_of(paths: tuple[Path, ...]) -> Fields:
    return of_paths(paths)


@dataclasses.dataclass(slots=True, kw_only=True)
class Write:
    """Description of an object's write, for field management."""

    schema: Schema
    """The kind's schema in `api_version`."""
    api_version: str
    """The version of the request and of the objects."""
    manager: str
    """The field manager: the request's option, or else the start of its user agent."""
    now: str
    """The time of the request, in the format of objects."""
    subresource: str = ""
    """The subresource of the request; empty for the object itself."""
    reset: Sequence[Path] = ()
    """The fields that this kind of write cannot change: `("status", ("metadata", "labels"))`."""
    convert: Convert | None = None
    """The conversion for kinds with several versions; with None, entries of other versions are dropped."""

    def without_reset(self, fields: Fields) -> Fields:
        """Return the fields without those that the API server resets in this write, such as the status."""
        return exclude(fields, _fields_of(tuple(self.reset))) if self.reset else fields

    def at(self, obj: Object, api_version: str, *, failed: str = "") -> tuple[Object, Schema] | None:
        """Return the object in `api_version` and its schema; `obj` has the request's version.

        Unknown versions give None.

        Raises:
            NotConverted: the version lacks a field of the object; the message begins with `failed`.
        """
        if api_version == self.api_version:
            return obj, self.schema
        return self.moved(obj, api_version, failed=failed)

    def moved(self, obj: Object, api_version: str, *, failed: str) -> tuple[Object, Schema] | None:
        """Convert an object from any version to `api_version`; result and errors are as in `at`."""
        try:
            return self.convert(obj, api_version) if self.convert is not None else None
        except Untypable as error:
            raise NotConverted(f"{failed}{error}") from None


def in_versions(schemas: Mapping[str, Schema]) -> Convert:
    """Return a conversion for versions that differ only in apiVersion and schema.

    For custom kinds, the conversion raises Untypable for a field that the target version does not declare.
    """

    def convert(obj: Object, api_version: str) -> tuple[Object, Schema] | None:
        schema = schemas.get(api_version)
        if schema is None:
            return None
        if not is_builtin(schema):
            check_declared(obj, root_shape(schema))
        return {**obj, "apiVersion": api_version}, schema

    return convert
