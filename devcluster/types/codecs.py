"""Codecs for the types of the table: decoding of JSON values as Go does, and their re-encoding."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Final

from devcluster.types import table
from devcluster.types.codec import BASIC, CUSTOM, Codec, DecodeError, Problems, json_type
from devcluster.types.json_text import Repeated

_JSON_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


def codec_of(go: str) -> Codec:
    """Return the codec of a Go type by its name in the table: `*int32`, `[]string`, a struct."""
    return _codec_of(go)


@functools.cache
def _codec_of(go: str) -> Codec:
    if go.startswith("*"):
        return _Pointer(_codec_of(go[1:]))
    if go == "[]byte":
        return BASIC["[]byte"]
    if go.startswith("[]"):
        return _Slice(_codec_of(go[2:]))
    if go.startswith("map[string]"):
        return _Map(_codec_of(go.removeprefix("map[string]")))
    if go in BASIC:
        return BASIC[go]
    definition = table.go_type(go)
    if isinstance(definition, list):
        return Struct(go)
    if definition == "custom":
        return (CUSTOM | _SCHEMAS)[go.rpartition(".")[2]]()
    return _Named(table.go_name(go), _codec_of(definition.removeprefix("items:")))


class _Pointer:
    """The codec of a pointer: a set value is written even if it is empty."""

    omits = False

    def __init__(self, target: Codec) -> None:
        self.go = target.go
        self.plain = target.plain
        self.convert: Callable[[Any, Problems], Any] = target.convert

    def zero(self) -> None:
        return None


class _Named:
    """A type of its own made of another one: the same but for its name in errors."""

    def __init__(self, go: str, target: Codec) -> None:
        self.go = go
        self.omits = target.omits
        self.plain = target.plain
        self.zero = target.zero
        self._convert = target.convert
        self._target = target.go

    def convert(self, value: Any, problems: Problems) -> Any:
        try:
            return self._convert(value, problems)
        except DecodeError as error:
            if error.go_type == self._target and not error.path:
                error.go_type = self.go
            raise


class _Slice:
    omits = True
    plain: type | None = None

    def __init__(self, item: Codec) -> None:
        self.go = f"[]{item.go}"
        self._item = item

    def convert(self, value: Any, problems: Problems) -> list[Any] | None:
        if type(value) is not list:
            raise DecodeError(json_type(value), self.go, value=value, kind="slice")
        plain, convert = self._item.plain, self._item.convert
        if plain is not None and all(type(item) is plain for item in value):
            return list(value) or None
        converted = []
        for index, item in enumerate(value):
            before = len(problems)
            converted.append(self._item.zero() if item is None else convert(item, problems))
            for problem in problems[before:]:
                problem.append(index)
        return converted or None  # the storage encoding has no empty lists

    def zero(self) -> None:
        return None


class _Map:
    omits = True
    plain: type | None = None

    def __init__(self, item: Codec) -> None:
        self.go = f"map[string]{item.go}"
        self._item = item
        self._strings = item.go == "string"
        # The storage encoding does not distinguish empty from missing bytes.
        self._zero = str if item.go == "[]uint8" else item.zero

    def convert(self, value: Any, problems: Problems) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            raise DecodeError(json_type(value), self.go, value=value, kind="map")
        if type(value) is Repeated:
            problems += _repeated(value.pairs)
        elif self._strings and all(type(item) is str for item in value.values()):
            return value or None
        convert = self._item.convert
        converted = {}
        for name, item in value.items():
            before = len(problems)
            converted[name] = self._zero() if item is None else convert(item, problems)
            for problem in problems[before:]:
                problem.append(name)
        return converted or None

    def zero(self) -> None:
        return None


_Field = tuple[Callable[[Any, Problems], Any], bool, tuple[str, ...], type | None]
"""A field's converter, whether it omits false values, its path for errors, and its `Codec.plain`."""


class Struct:
    """A struct: its fields and those of the structs embedded in it."""

    omits = False
    plain: type | None = None

    def __init__(self, name: str) -> None:
        """Set up the codec by OpenAPI name; fields are resolved at first use: types may be recursive."""
        self.go = table.go_name(name)
        self._name = name
        self._short = name.rpartition(".")[2]

    @functools.cached_property
    def _fields(self) -> dict[str, _Field]:
        """The fields by name."""
        return {
            path[0]: (
                codec.convert,
                "omitzero" in flags or (codec.omits and "omitempty" in flags),
                path,
                codec.plain,
            )
            for path, codec, flags in _flattened(self._name)
        }

    @functools.cached_property
    def _always(self) -> tuple[tuple[str, Callable[[], Any]], ...]:
        """Return the fields that are written even if unset, with functions for their empty values."""
        return tuple(
            (path[0], codec.zero)
            for path, codec, flags in _flattened(self._name)
            if not flags or ("omitzero" not in flags and _never_empty(codec))
        )

    def convert(self, value: Any, problems: Problems) -> dict[str, Any]:
        """Convert a value as `Codec.convert` does."""
        if type(value) is not dict:
            return self._with_repeated(value, problems)
        fields = self._fields
        converted = {}
        before = len(problems)
        for name, item in value.items():
            field = fields.get(name)
            if field is None:
                problems.append(["unknown", name])
                before += 1
            elif item is not None:
                convert, omits, path, plain = field
                if type(item) is plain:
                    result = item
                else:
                    try:
                        result = convert(item, problems)
                    except DecodeError as error:
                        self._locate(error, path)
                        raise
                if result or not omits:
                    converted[name] = result
                if len(problems) > before:
                    for problem in problems[before:]:
                        problem.append(name)
                    before = len(problems)
        for name, zero in self._always:
            if name not in converted:
                converted[name] = zero()
        return converted

    def zero(self) -> dict[str, Any]:
        """Return the empty value as `Codec.zero` does."""
        return {name: zero() for name, zero in self._always}

    def _with_repeated(self, value: Any, problems: Problems) -> dict[str, Any]:
        """Convert an object with a repeated name; a known name is reported where it recurs."""
        if not isinstance(value, Repeated):
            raise DecodeError(json_type(value), self.go, value=value, kind="struct")
        seen = set()
        for name, item in value.pairs:
            if name in seen and name in self._fields:
                problems.append(["duplicate", name])
            seen.add(name)
            self.convert({name: item}, problems)
        return self.convert(_merged(value), [])

    def _locate(self, error: DecodeError, path: Iterable[str]) -> None:
        error.struct = error.struct or self._short
        error.path.extend(path)


def _merged(value: Repeated) -> dict[str, Any]:
    """Merge repeated objects as Go does: a later object's fields are added to the earlier one."""
    merged: dict[str, Any] = {}
    for name, item in value.pairs:
        before = merged.get(name)
        both = isinstance(before, dict) and isinstance(item, dict)
        merged[name] = _merged(Repeated([*_pairs(before), *_pairs(item)])) if both else item
    return merged


def _pairs(value: Any) -> list[tuple[str, Any]]:
    return value.pairs if isinstance(value, Repeated) else list(value.items())


def _repeated(pairs: Iterable[tuple[str, Any]]) -> Problems:
    seen: set[str] = set()
    found: Problems = []
    for name, _ in pairs:
        if name in seen:
            found.append(["duplicate", name])
        seen.add(name)
    return found


def _never_empty(codec: Codec) -> bool:
    """Return whether `omitempty` has no effect: Go never omits a struct, but does omit an unset pointer."""
    return not codec.omits and not isinstance(codec, _Pointer)


def _flattened(name: str) -> list[tuple[tuple[str, ...], Codec, str]]:
    """Return the fields, embedded structs' fields too; a path is the name, then the embedding structs."""
    fields: list[tuple[tuple[str, ...], Codec, str]] = []
    for json_name, go, flags, _ in table.fields_of(name):
        if json_name:
            fields.append(((json_name,), codec_of(go), flags))
        else:
            embedded = go.removeprefix("*")
            for path, codec, inner_flags in _flattened(embedded):
                fields.append(((*path, embedded.rpartition(".")[2]), codec, inner_flags))
    return fields


class _SchemaOr:
    """A JSON schema, or something simpler: true or false, a list of schemas, a list of names."""

    go = "v1.JSONSchemaProps"
    omits = False
    plain: type | None = None

    def __init__(self) -> None:
        self._schema = codec_of(_JSON_SCHEMA)

    def convert(self, value: Any, _problems: Problems) -> Any:
        """Read a schema. Unknown fields are dropped, and Go does not report them."""
        return self._schema.convert(value, [])

    def zero(self) -> None:
        return None


class _SchemaOrBool(_SchemaOr):
    def convert(self, value: Any, problems: Problems) -> Any:
        if isinstance(value, dict):
            return super().convert(value, problems)
        if isinstance(value, bool):
            return value
        raise DecodeError("boolean or JSON schema expected")


class _SchemaOrArray(_SchemaOr):
    def convert(self, value: Any, problems: Problems) -> Any:
        if isinstance(value, list):
            return codec_of(f"[]{_JSON_SCHEMA}").convert(value, [])
        return super().convert(value, problems) if isinstance(value, dict) else None


class _SchemaOrStrings(_SchemaOr):
    def convert(self, value: Any, problems: Problems) -> Any:
        if isinstance(value, list):
            return codec_of("[]string").convert(value, problems)
        return super().convert(value, problems) if isinstance(value, dict) else None


_SCHEMAS: Final[dict[str, Callable[[], Codec]]] = {
    "JSONSchemaPropsOrBool": _SchemaOrBool,
    "JSONSchemaPropsOrArray": _SchemaOrArray,
    "JSONSchemaPropsOrStringArray": _SchemaOrStrings,
}
