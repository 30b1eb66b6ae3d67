"""The codecs of plain values, and of the types that read and write themselves."""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Callable
from typing import Any, Final

from devcluster.types import quantity, times
from devcluster.types.codec import Codec, DecodeError, Problems, json_type

__all__ = ["BASIC", "CUSTOM"]

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
            return quantity.canonical(text.strip())
        except quantity.InvalidQuantity as error:
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
