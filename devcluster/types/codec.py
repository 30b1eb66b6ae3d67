"""Codecs of Go types, which decode JSON values as Go does, and encode them again."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any, Final

from devcluster.types import table, times
from devcluster.types.json_text import Repeated

_JSON_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"

Problems = list[list[str | int]]
"""Unknown and duplicate fields: `unknown` or `duplicate`, then the path from the inside out."""


_GO_KINDS = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "slice",
    dict: "map",
    Repeated: "map",
}


class DecodeError(Exception):
    """Error for a value that does not fit its Go type; the message is Go's.

    While the error is raised, each enclosing struct adds its field to the path.
    """

    def __init__(self, head: str, go_type: str = "", *, value: Any = None, kind: str = "") -> None:
        """Set up the error for `value`, whose target is the Go type `go_type`.

        `kind` is the Go kind of the target; it is empty for a type that decodes itself. Without `go_type`,
        `head` is the whole message.
        """
        super().__init__(head)
        self.head = head
        self.go_type = go_type
        self.kind = kind
        self.value = value
        self.struct = ""
        self.path: list[str] = []

    def __str__(self) -> str:
        if not self.go_type:
            return self.head
        place = f"{self.struct}.{'.'.join(reversed(self.path))}"
        return f"json: cannot unmarshal {self.head} into Go struct field {place} of type {self.go_type}"

    @property
    def restored(self) -> str:
        """Return Go's message for decoding from a map instead of JSON, as for strategic merge patches."""
        if not self.go_type:
            return self.head
        found = _GO_KINDS[type(self.value)]
        if not self.kind:
            return f"json: cannot unmarshal {self.head} into Go value of type {self.go_type}"
        if self.kind == "struct":
            return f"cannot restore struct from: {found}"
        if self.kind in {"map", "slice"}:
            return f"cannot restore {self.kind} from {found}"
        numbers = {"int32", "int64", "float64"}
        if (found in numbers and self.kind in numbers) or (found == "int64" and self.kind == "string"):
            return f"cannot convert {found} to {self.go_type}"
        return f"unrecognized type: {self.kind}"


def json_type(value: Any) -> str:
    """Return the name of a JSON value's type in Go's errors."""
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "number"


@dataclasses.dataclass(slots=True)
class Codec:
    """Decoder and encoder of one Go type."""

    go: str
    """The type's Go name, for errors."""
    convert: Callable[[Any, Problems], Any]
    """Converts a value, which is not None, to the form in which Go would write it after reading it.

    Raises:
        DecodeError: the value does not fit the type.
    """
    zero: Callable[[], Any] = lambda: None
    """Returns the value that Go writes for an unset field."""
    omits: bool = False
    """Whether `omitempty` drops a value that is false in Python; Go never drops a struct."""
    plain: type | None = None
    """The Python type whose values need no conversion, or None."""
    is_pointer: bool = False


_INTEGERS = 1 << 63  # the store's JSON has no larger integers
_ZERO_TIME = "0001-01-01T00:00:00"
_FEWEST_BEFORE_PADDING = 2


def _mistyped(value: Any, go: str, kind: str = "", shown: str = "") -> DecodeError:
    return DecodeError(shown or json_type(value), go, value=value, kind=kind)


def _plain(kind: type, go: str) -> Codec:
    def convert(value: Any, _: Problems) -> Any:
        if type(value) is not kind:
            raise _mistyped(value, go, go)
        return value

    return Codec(go, convert, kind, omits=True, plain=kind)


def _integer(go: str, bits: int) -> Codec:
    end = 2 ** (bits - 1)

    def convert(value: Any, _: Problems) -> int:
        if type(value) is int and -end <= value < end:
            return value
        raise _mistyped(value, go, go, f"number {value}" if json_type(value) == "number" else "")

    return Codec(go, convert, int, omits=True)


def _float(value: Any, _: Problems) -> float:
    if type(value) is int:
        return value
    if type(value) is float:
        return int(value) if value.is_integer() and abs(value) < _INTEGERS else value
    raise _mistyped(value, "float64", "float64")


def _bytes(value: Any, _: Problems) -> str:
    """Return a base64 text without line breaks; raise DecodeError for any other value."""
    if type(value) is not str:
        raise _mistyped(value, "[]uint8", "slice")
    text = value.replace("\r", "").replace("\n", "")
    try:
        if len(text) % 4 or text.endswith("==="):
            raise ValueError  # noqa: TRY301 -- Python would ignore excess padding
        return base64.b64encode(base64.b64decode(text, validate=True)).decode()
    except (binascii.Error, ValueError):
        raise DecodeError(f"illegal base64 data at input byte {_first_wrong(value)}") from None


def _first_wrong(text: str) -> int:
    """Return the offset that Go's decoder reports for invalid base64."""
    match = re.match(r"[A-Za-z0-9+/\r\n]*", text)
    assert match is not None
    position = match.end()
    in_group = len(re.sub(r"[\r\n]", "", match[0])) % 4
    if position == len(text):
        return position - in_group
    if text[position] != "=" or in_group < _FEWEST_BEFORE_PADDING:
        return position
    rest = re.sub(r"[\r\n]", "", text[position + 1 :])
    if in_group == _FEWEST_BEFORE_PADDING and not rest.startswith("="):
        return position if rest else len(text)
    return position + 4 - in_group


def _time(normal: Callable[[str], str]) -> Callable[[Any, Problems], str | None]:
    def convert(value: Any, _: Problems) -> str | None:
        if type(value) is not str:
            raise _mistyped(value, "string")
        try:
            text = normal(value)
        except times.InvalidTime as error:
            raise DecodeError(str(error)) from None
        return None if text.startswith(_ZERO_TIME) else text

    return convert


def _quantity(value: Any, _: Problems) -> str:
    text = value if type(value) is str else "" if json_type(value) != "number" else str(value)
    try:
        return times.canonical(text.strip())
    except times.InvalidQuantity as error:
        raise DecodeError(str(error)) from None


def _int_or_string(value: Any, problems: Problems) -> int | str:
    if type(value) is str:
        return value
    try:
        number: int = BASIC["int32"].convert(value, problems)
    except DecodeError as error:
        error.kind = ""
        raise
    return number


def _as_it_is(value: Any, _: Problems) -> Any:
    return value


def _schema(value: Any) -> Any:
    """Decode a JSON schema, and drop its unknown fields without a finding, as Go does."""
    return codec_of(_JSON_SCHEMA).convert(value, [])


def _schema_or_bool(value: Any, _: Problems) -> Any:
    if isinstance(value, dict):
        return _schema(value)
    if isinstance(value, bool):
        return value
    raise DecodeError("boolean or JSON schema expected")


def _schema_or_list(item: str) -> Callable[[Any, Problems], Any]:
    def convert(value: Any, problems: Problems) -> Any:
        if isinstance(value, list):
            return codec_of(f"[]{item}").convert(value, problems if item == "string" else [])
        return _schema(value) if isinstance(value, dict) else None

    return convert


BASIC: Final[dict[str, Codec]] = {
    "string": _plain(str, "string"),
    "bool": _plain(bool, "bool"),
    "int32": _integer("int32", 32),
    "int64": _integer("int64", 64),
    "float64": Codec("float64", _float, int, omits=True),
    "[]byte": Codec("[]uint8", _bytes, omits=True),
}
CUSTOM: Final[dict[str, Codec]] = {
    "Time": Codec("v1.Time", _time(times.normal_time)),
    "MicroTime": Codec("v1.MicroTime", _time(times.normal_micro_time)),
    "Quantity": Codec("resource.Quantity", _quantity, lambda: "0"),
    "IntOrString": Codec("intstr.IntOrString", _int_or_string, int),
    "RawExtension": Codec("runtime.RawExtension", _as_it_is),
    "FieldsV1": Codec("v1.FieldsV1", _as_it_is),
    "JSON": Codec("v1.JSON", _as_it_is),
    "JSONSchemaPropsOrBool": Codec("v1.JSONSchemaProps", _schema_or_bool),
    "JSONSchemaPropsOrArray": Codec("v1.JSONSchemaProps", _schema_or_list(_JSON_SCHEMA)),
    "JSONSchemaPropsOrStringArray": Codec("v1.JSONSchemaProps", _schema_or_list("string")),
}


@functools.cache
def codec_of(go: str) -> Codec:
    """Return the codec of a Go type, by its name in the table: `*int32`, `[]string`, or a struct."""
    if go.startswith("*"):  # a set value is written even if it is empty
        target = codec_of(go[1:])
        return Codec(target.go, target.convert, plain=target.plain, is_pointer=True)
    if go in BASIC:
        return BASIC[go]
    if go.startswith("[]"):
        return _slice(codec_of(go[2:]))
    if go.startswith("map[string]"):
        return _map(codec_of(go.removeprefix("map[string]")))
    definition = table.go_type(go)
    if isinstance(definition, list):
        struct = _Struct(go)
        return Codec(struct.go, struct.convert, struct.zero)
    if definition == "custom":
        return CUSTOM[go.rpartition(".")[2]]
    return _named(table.go_name(go), codec_of(definition.removeprefix("items:")))


def _named(go: str, target: Codec) -> Codec:
    """Return the codec of a named Go type: the codec `target`, with another name in errors."""

    def convert(value: Any, problems: Problems) -> Any:
        try:
            return target.convert(value, problems)
        except DecodeError as error:
            if error.go_type == target.go and not error.path:
                error.go_type = go
            raise

    return dataclasses.replace(target, go=go, convert=convert)


def _slice(item: Codec) -> Codec:
    go, plain = f"[]{item.go}", item.plain

    def convert(value: Any, problems: Problems) -> list[Any] | None:
        if type(value) is not list:
            raise _mistyped(value, go, "slice")
        if plain is not None and all(type(each) is plain for each in value):
            return list(value) or None
        converted = []
        for index, each in enumerate(value):
            before = len(problems)
            converted.append(item.zero() if each is None else item.convert(each, problems))
            for problem in problems[before:]:
                problem.append(index)
        return converted or None  # the storage encoding has no empty lists

    return Codec(go, convert, omits=True)


def _map(item: Codec) -> Codec:
    go, strings = f"map[string]{item.go}", item.go == "string"
    # The storage encoding does not distinguish empty from missing bytes.
    zero = str if item.go == "[]uint8" else item.zero

    def convert(value: Any, problems: Problems) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            raise _mistyped(value, go, "map")
        if type(value) is Repeated:
            seen: set[str] = set()
            for name, _ in value.pairs:
                if name in seen:
                    problems.append(["duplicate", name])
                seen.add(name)
        elif strings and all(type(each) is str for each in value.values()):
            return value or None
        converted = {}
        for name, each in value.items():
            before = len(problems)
            converted[name] = zero() if each is None else item.convert(each, problems)
            for problem in problems[before:]:
                problem.append(name)
        return converted or None

    return Codec(go, convert, omits=True)


_Field = tuple[Callable[[Any, Problems], Any], bool, tuple[str, ...], type | None]
"""A field's converter, whether it omits false values, its path for errors, and its `Codec.plain`."""


class _Struct:
    """Codec of a struct with all its fields, including those of embedded structs."""

    def __init__(self, name: str) -> None:
        """Set up the codec of the struct with this OpenAPI name; its fields are resolved at the first use."""
        self.go = table.go_name(name)
        self._name = name
        self._short = name.rpartition(".")[2]

    @functools.cached_property
    def _fields(self) -> dict[str, _Field]:
        """Fields of the struct, by their JSON names."""
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
        """Return the fields that are written even if not set, each with a function for its empty value."""
        return tuple(
            (path[0], codec.zero)
            for path, codec, flags in _flattened(self._name)
            # Go never omits a struct, but does omit an unset pointer.
            if not flags or ("omitzero" not in flags and not codec.omits and not codec.is_pointer)
        )

    def convert(self, value: Any, problems: Problems) -> dict[str, Any]:
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
                        error.struct = error.struct or self._short
                        error.path.extend(path)
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
        return {name: zero() for name, zero in self._always}

    def _with_repeated(self, value: Any, problems: Problems) -> dict[str, Any]:
        """Convert an object with a repeated field, and report each repetition of a known field."""
        if not isinstance(value, Repeated):
            raise _mistyped(value, self.go, "struct")
        seen = set()
        for name, item in value.pairs:
            if name in seen and name in self._fields:
                problems.append(["duplicate", name])
            seen.add(name)
            self.convert({name: item}, problems)
        return self.convert(_merged(value), [])


def _merged(value: Repeated) -> dict[str, Any]:
    """Merge repeated fields as Go does: a later object adds its fields to the earlier one."""
    merged: dict[str, Any] = {}
    for name, item in value.pairs:
        before = merged.get(name)
        both = isinstance(before, dict) and isinstance(item, dict)
        merged[name] = _merged(Repeated([*_pairs(before), *_pairs(item)])) if both else item
    return merged


def _pairs(value: Any) -> list[tuple[str, Any]]:
    return value.pairs if isinstance(value, Repeated) else list(value.items())


def _flattened(name: str) -> list[tuple[tuple[str, ...], Codec, str]]:
    """Return the fields of a struct and of its embedded structs, each as (path, codec, flags).

    A path is the field's JSON name, followed by the names of the embedded structs, innermost first.
    """
    fields: list[tuple[tuple[str, ...], Codec, str]] = []
    for json_name, go, flags, _ in table.fields_of(name):
        if json_name:
            fields.append(((json_name,), codec_of(go), flags))
        else:
            embedded = go.removeprefix("*")
            for path, codec, inner_flags in _flattened(embedded):
                fields.append(((*path, embedded.rpartition(".")[2]), codec, inner_flags))
    return fields
