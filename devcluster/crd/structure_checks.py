"""Structural checks of a schema, for example that `allOf`, `anyOf`, `oneOf` and `not` define no types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from devcluster.errors import FieldError, field_forbidden, field_invalid, field_required
from devcluster.schema.patterns import compile_pattern

Source = Mapping[str, Any]

_JUNCTIONS = ("anyOf", "allOf", "oneOf")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_NESTED_EMPTY = (
    ("type", "must be empty to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_EMPTY_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def check_structure(source: Source, path: str) -> list[FieldError]:
    """Return the errors that make the schema at `path` non-structural, sorted."""
    found = [*_invariants(source, "root", path), *_same_fields(source, source, path, path)]
    return sorted(found, key=str)


def _is_schema(value: Any) -> bool:
    return isinstance(value, Mapping)


def _invariants(source: Source, level: str, path: str) -> Iterator[FieldError]:
    items, additional = source.get("items"), source.get("additionalProperties")
    kind = source.get("type") or ""
    embedded = bool(source.get("x-kubernetes-embedded-resource"))
    preserve = bool(source.get("x-kubernetes-preserve-unknown-fields"))
    if kind == "array" and items is None:
        yield field_required(f"{path}.items", "must be specified")
    if isinstance(items, Mapping):
        yield from _invariants(items, "item", f"{path}.items")
    for name, each in (source.get("properties") or {}).items():
        yield from _invariants(each, "field", f"{path}.properties[{name}]")
    if additional is not None:
        if level == "root":
            yield field_forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(additional, Mapping):
            yield from _invariants(additional, "field", f"{path}.additionalProperties")
    yield from _extensions(source, path)
    yield from _values(source, path, skip_any=_is_int_or_string(source))
    if embedded and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        yield field_invalid(f"{path}.type", kind, text) if kind else field_required(f"{path}.type", text)
    elif not kind and not source.get("x-kubernetes-int-or-string") and not preserve:
        yield field_required(f"{path}.type", _EMPTY_TYPE[level])
    if embedded and additional is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        yield field_forbidden(f"{path}.additionalProperties", text)
    if level == "root" and kind and kind != "object":
        yield field_invalid(f"{path}.type", kind, "must be object at the root")
    yield from _metadata(source, level, path, check=level == "root" or embedded)
    if embedded and not preserve and not source.get("properties"):
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        yield field_required(f"{path}.properties", text)


def _metadata(source: Source, level: str, path: str, *, check: bool) -> Iterator[FieldError]:
    properties = source.get("properties") or {}
    for name in ("kind", "apiVersion"):
        kind = (properties.get(name) or {}).get("type") or ""
        if check and name in properties and kind != "string":
            yield field_invalid(f"{path}.properties[{name}].type", kind, "must be string")
    metadata = properties.get("metadata")
    if not isinstance(metadata, Mapping):
        return
    here = f"{path}.properties[metadata]"
    kind = metadata.get("type") or ""
    if check and kind != "object":
        yield field_invalid(f"{here}.type", kind, "must be object")
    named = set(metadata.get("properties") or ())
    said = {key for key, value in metadata.items() if value and key not in {"type", "default"}}
    allowed = {"properties"} if named and named <= {"name", "generateName"} else set()
    if level == "root" and said - allowed:
        text = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield field_forbidden(here, text)


def _extensions(source: Source, path: str) -> Iterator[FieldError]:
    if not source.get("x-kubernetes-int-or-string"):
        return
    for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
        if source.get(name):
            yield field_invalid(f"{path}.{name}", True, "must be false if x-kubernetes-int-or-string is true")


def _is_int_or_string(source: Source) -> bool:
    return source.get("anyOf") == _INT_OR_STRING


def _values(source: Source, path: str, *, skip_any: bool = False) -> Iterator[FieldError]:
    for junction in _JUNCTIONS:
        if junction == "anyOf" and skip_any:
            continue
        for index, each in enumerate(source.get(junction) or ()):
            # The alternatives of "integer or string" may also come first in an allOf.
            skip = junction == "allOf" and index == 0 and _is_int_or_string(each)
            yield from _nested(each, f"{path}.{junction}[{index}]", skip_any=skip)
    if _is_schema(source.get("not")):
        yield from _nested(source["not"], f"{path}.not")
    pattern = source.get("pattern")
    if pattern:
        try:
            compile_pattern(pattern)
        except ValueError as error:
            yield field_invalid(
                f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}"
            )


def _nested(source: Source, path: str, *, skip_any: bool = False) -> Iterator[FieldError]:
    yield from _values(source, path, skip_any=skip_any)
    if isinstance(source.get("items"), Mapping):
        yield from _nested(source["items"], f"{path}.items")
    for name, each in (source.get("properties") or {}).items():
        yield from _nested(each, f"{path}.properties[{name}]")
    if source.get("additionalProperties"):
        yield field_forbidden(f"{path}.additionalProperties", "must be undefined to be structural")
    for name, text in _NESTED_EMPTY:
        value = source.get(name)
        if value or (name == "default" and value is not None):
            yield field_forbidden(f"{path}.{name}", text)
    if "metadata" in (source.get("properties") or {}):
        yield field_forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _same_fields(nested: Source, source: Source, path: str, where: str) -> Iterator[FieldError]:
    """Yield an error for each field in allOf, anyOf, oneOf or not of `nested` that `source` lacks."""
    alternatives: list[tuple[Source, str]] = [
        (each, f"{where}.{junction}[{index}]")
        for junction in ("allOf", "anyOf", "oneOf")
        for index, each in enumerate(nested.get(junction) or ())
    ]
    if isinstance(nested.get("not"), Mapping):
        alternatives.append((nested["not"], f"{where}.not"))
    for each, there in alternatives:
        yield from _spoken_of(each, source, path, there)


def _spoken_of(nested: Source, source: Any, path: str, where: str) -> Iterator[FieldError]:
    if not isinstance(source, Mapping):
        yield field_required(path, f"because it is defined in {where}")
        return
    yield from _same_fields(nested, source, path, where)
    if isinstance(nested.get("items"), Mapping):
        yield from _spoken_of(nested["items"], source.get("items"), f"{path}.items", f"{where}.items")
    for name, field in (nested.get("properties") or {}).items():
        key = f"properties[{name}]"
        inner = (source.get("properties") or {}).get(name)
        yield from _spoken_of(field, inner, f"{path}.{key}", f"{where}.{key}")
