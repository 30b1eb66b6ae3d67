"""Objects that are not of their model's shape, although their schema let them pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manager.webhook.refused import FieldError, required

if TYPE_CHECKING:
    from pydantic import ValidationError

__all__ = ["field_errors"]

_SHOWN = 10
"""As many as a person reads."""


def field_errors(error: ValidationError) -> tuple[FieldError, ...]:
    """What is wrong with which field. Values are not shown: a model does not say which of them are secret."""
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
