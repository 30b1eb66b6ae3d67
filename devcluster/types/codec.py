"""The protocol of codecs, and the error for a value that does not fit."""

from __future__ import annotations

from typing import Any, Protocol

from devcluster.types.json_text import Repeated

__all__ = ["Codec", "DecodeError", "Problems", "json_type"]

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
