"""Refusals of requests, with the invalid fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson
from pydantic import ValidationError

from manager.api import GroupVersionKind
from manager.telemetry.logs import shortened

_LONGEST_NAME = 253
"""The maximum length of an object's name."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error of one field, in the API server's own wording."""

    field: str
    """The path of the field, with dots and brackets: `spec.birthday`, `spec.ports[0].name`."""

    type: str
    """The machine-readable type: `FieldValueInvalid`, `FieldValueForbidden` or `FieldValueRequired`."""

    body: str
    """The message without the path: `Invalid value: "x": must be a date`."""

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def invalid(field: str, value: Any, reason: str) -> FieldError:
    """Return an error for an invalid value, whose beginning is shown: never pass a secret."""
    return FieldError(field, "FieldValueInvalid", _with_reason(f"Invalid value: {_shown(value)}", reason))


def forbidden(field: str, reason: str) -> FieldError:
    """Return an error for a field that must not be set or changed, whatever its value."""
    return FieldError(field, "FieldValueForbidden", _with_reason("Forbidden", reason))


def required(field: str, reason: str = "") -> FieldError:
    """Return an error for a missing required value."""
    return FieldError(field, "FieldValueRequired", _with_reason("Required value", reason))


class Refused(Exception):
    """The refusal of a request, raised by an admission or conversion function.

    With field errors, the user gets a Status 422 Invalid with a cause for each, as for a schema's errors:

        raise Refused(invalid("spec.birthday", pet.spec.birthday, "must not be in the future"))

    With a text alone, the user gets a 403 Forbidden with this text.
    """

    def __init__(self, first: FieldError | str, /, *more: FieldError) -> None:
        """Take one message or any number of field errors; a mix of both raises `TypeError`."""
        errors = (first, *more)
        self.fields = tuple(error for error in errors if isinstance(error, FieldError))
        """The field errors; empty when a text says it all."""
        if more and len(self.fields) != len(errors):
            raise TypeError("Refused takes either one text or any number of field errors")
        texts = list(dict.fromkeys(map(str, errors)))
        super().__init__(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")

    def status(self, kind: GroupVersionKind, name: str) -> Mapping[str, Any]:
        """Return the refusal as a `Status` about the object `name` of that kind."""
        if not self.fields:
            return {
                "status": "Failure",
                "code": int(HTTPStatus.FORBIDDEN),
                "reason": "Forbidden",
                "message": str(self),
            }
        name = shortened(name, _LONGEST_NAME)
        whose = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
        causes = [{"reason": e.type, "message": e.body, "field": e.field} for e in self.fields]
        return {
            "status": "Failure",
            "code": int(HTTPStatus.UNPROCESSABLE_ENTITY),
            "reason": "Invalid",
            "message": f"{whose} {_quoted(name)} is invalid: {self}",
            "details": {"group": kind.group, "kind": kind.kind, "name": name, "causes": causes},
        }


def _with_reason(text: str, reason: str) -> str:
    return f"{text}: {reason}" if reason else text


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(shortened(value))
    try:
        return shortened(orjson.dumps(value).decode())
    except orjson.JSONEncodeError:
        return shortened(str(value))


def _quoted(text: str) -> str:
    # JSON's escapes are equal to Go's for ordinary text; a lone surrogate is invalid for both.
    return orjson.dumps(text.encode("utf-8", "replace").decode()).decode()


_SHOWN = 10
"""The number of errors that are shown."""


def field_errors(error: ValidationError) -> tuple[FieldError, ...]:
    """Return the field errors of a model, without values, because models do not mark secrets."""
    return tuple(
        _field_error(detail["type"], detail["loc"], detail["msg"])
        for detail in error.errors(include_url=False, include_input=False, include_context=False)[:_SHOWN]
    )


def _field_error(sort: str, location: tuple[int | str, ...], message: str) -> FieldError:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    if sort == "missing":
        return required(path)
    return FieldError(path or "<the object>", "FieldValueInvalid", f"Invalid value: {message}")
