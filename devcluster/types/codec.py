"""Codecs of plain values, and of types that read and write themselves."""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Callable
from typing import Any, Final, Protocol

from devcluster.types import times
from devcluster.types.json_text import Repeated

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
    """A value does not fit its Go type; the text is Go's.

    Every struct on the way out adds its field to the error's path.
    """

    def __init__(self, head: str, go_type: str = "", *, value: Any = None, kind: str = "") -> None:
        """Set up the error; `go_type` is the target type. Without it `head` is the whole text.

        `kind` is the target's Go kind, empty for a type that decodes itself, and `value` the wrong value.
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
        """Return the text for a decoding from maps instead of JSON, as for strategic merge patches."""
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


class Codec(Protocol):
    """Reader and writer of one type."""

    go: str
    """The type's Go name in errors."""
    omits: bool
    """Whether `omitempty` drops a value that is false in Python; Go never drops a struct."""
    plain: type | None
    """Every value of just this type is read as it is."""

    def convert(self, value: Any, problems: Problems) -> Any:
        """Return the value as Go would write it after reading it; `value` is not None.

        Raises:
            DecodeError: the value does not fit the type.
        """

    def zero(self) -> Any:
        """Return the value that Go writes for a field that was never set."""


def json_type(value: Any) -> str:
    """Return the name that Go's errors have for the kind of a JSON value."""
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "number"


_PLAIN_BELOW = 1e21  # floats that Go writes without an exponent
_ZERO_TIME = "0001-01-01T00:00:00"
_FEWEST_BEFORE_PADDING = 2


class _String:
    go = "string"
    omits = True
    plain: type | None = str

    def convert(self, value: Any, _problems: Problems) -> str:
        if type(value) is str:
            return value
        raise DecodeError(json_type(value), self.go, value=value, kind=self.go)

    def zero(self) -> str:
        return ""


class _Bool:
    go = "bool"
    omits = True
    plain: type | None = bool

    def convert(self, value: Any, _problems: Problems) -> bool:
        if value is True or value is False:
            return value
        raise DecodeError(json_type(value), self.go, value=value, kind=self.go)

    def zero(self) -> bool:
        return False


class _Integer:
    omits = True
    plain: type | None = None

    def __init__(self, go: str, least: int, most: int) -> None:
        self.go = go
        self._least = least
        self._most = most

    def convert(self, value: Any, _problems: Problems) -> int:
        if type(value) is int and self._least <= value <= self._most:
            return value
        shown = json_type(value)
        raise DecodeError(
            f"number {value}" if shown == "number" else shown, self.go, value=value, kind=self.go
        )

    def zero(self) -> int:
        return 0


class _Float:
    go = "float64"
    omits = True
    plain: type | None = None

    def convert(self, value: Any, _problems: Problems) -> float:
        if type(value) is int:
            return value
        if type(value) is float:
            return int(value) if value.is_integer() and abs(value) < _PLAIN_BELOW else value
        raise DecodeError(json_type(value), self.go, value=value, kind=self.go)

    def zero(self) -> int:
        return 0


class _Bytes:
    """Base64 in JSON; line breaks in it are passed over."""

    go = "[]uint8"
    omits = True
    plain: type | None = None

    def convert(self, value: Any, _problems: Problems) -> str:
        if type(value) is not str:
            raise DecodeError(json_type(value), self.go, value=value, kind="slice")
        text = value.replace("\r", "").replace("\n", "")
        try:
            if len(text) % 4 or text.endswith("==="):
                raise ValueError  # noqa: TRY301 -- Python would ignore excess padding
            return base64.b64encode(base64.b64decode(text, validate=True)).decode()
        except (binascii.Error, ValueError):
            raise DecodeError(f"illegal base64 data at input byte {_first_wrong(value)}") from None

    def zero(self) -> None:
        return None


class _Time:
    go = "v1.Time"
    omits = False
    plain: type | None = None

    def convert(self, value: Any, _problems: Problems) -> str | None:
        if type(value) is not str:
            raise DecodeError(json_type(value), "string", value=value)
        try:
            normal = self._normal(value)
            return None if normal.startswith(_ZERO_TIME) else normal
        except times.InvalidTime as error:
            raise DecodeError(str(error)) from None

    def zero(self) -> None:
        return None

    def _normal(self, text: str) -> str:
        return times.normal_time(text)


class _MicroTime(_Time):
    go = "v1.MicroTime"

    def _normal(self, text: str) -> str:
        return times.normal_micro_time(text)


class _Quantity:
    go = "resource.Quantity"
    omits = False
    plain: type | None = None

    def convert(self, value: Any, _problems: Problems) -> str:
        text = value if type(value) is str else "" if json_type(value) != "number" else str(value)
        try:
            return times.canonical(text.strip())
        except times.InvalidQuantity as error:
            raise DecodeError(str(error)) from None

    def zero(self) -> str:
        return "0"


class _IntOrString:
    go = "intstr.IntOrString"
    omits = False
    plain: type | None = None

    def convert(self, value: Any, problems: Problems) -> int | str:
        if type(value) is str:
            return value
        try:
            number: int = BASIC["int32"].convert(value, problems)
        except DecodeError as error:
            error.kind = ""
            raise
        return number

    def zero(self) -> int:
        return 0


class _Raw:
    """Any JSON, kept as it is."""

    omits = False
    plain: type | None = None

    def __init__(self, go: str) -> None:
        self.go = go

    def convert(self, value: Any, _problems: Problems) -> Any:
        return value

    def zero(self) -> None:
        return None


def _first_wrong(text: str) -> int:
    """Return the offset at which Go's decoder reports the error in invalid base64."""
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


BASIC: Final[dict[str, Codec]] = {
    "string": _String(),
    "bool": _Bool(),
    "int32": _Integer("int32", -(2**31), 2**31 - 1),
    "int64": _Integer("int64", -(2**63), 2**63 - 1),
    "float64": _Float(),
    "[]byte": _Bytes(),
}
CUSTOM: Final[dict[str, Callable[[], Codec]]] = {
    "Time": _Time,
    "MicroTime": _MicroTime,
    "Quantity": _Quantity,
    "IntOrString": _IntOrString,
    "RawExtension": functools.partial(_Raw, "runtime.RawExtension"),
    "FieldsV1": functools.partial(_Raw, "v1.FieldsV1"),
    "JSON": functools.partial(_Raw, "v1.JSON"),
}
