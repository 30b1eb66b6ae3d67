"""The field that an author may have meant by one that the API server does not know."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from manager.api import ApiModel, Resource
from manager.kube.errors import BadRequest

__all__ = ["name_nearest"]

# Of a create or an update that is strict, and of an apply.
_UNKNOWN = re.compile(r'unknown field "([^"]+)"|(\.\S+): field not declared in schema')
_ITEM = re.compile(r"\[[^\]]*\]")
_LONGEST = 10_000
"""Characters of a message that are searched."""


def name_nearest(error: BadRequest, kind: type[Resource]) -> None:
    """Add to the message of a refused write of the kind which fields may have been meant."""
    found = [near for path in _unknown(error.message[:_LONGEST]) if (near := _nearest(kind, path))]
    if found:
        error.message += f"; did you mean {', '.join(found)}?"
        error.args = (error.message,)


def _unknown(message: str) -> Iterator[str]:
    for match in _UNKNOWN.finditer(message):
        yield (match[1] or match[2]).lstrip(".")


def _nearest(kind: type[Resource], path: str) -> str | None:
    """Return the path with another last name, if the model at that place has a similar one."""
    *outer, last = _ITEM.sub("", path).split(".")
    model: type[ApiModel] | None = kind
    for step in outer:
        model = None if model is None else _model_in(model, step)
    if model is None:
        return None
    names = {name: field.alias or name for name, field in model.model_fields.items()}
    near = [names[last]] if last in names else difflib.get_close_matches(last, names.values(), n=1)
    return f"{path.removesuffix(last)}{near[0]}" if near else None


def _model_in(model: type[ApiModel], step: str) -> type[ApiModel] | None:
    """Return the model of a field, or of its items."""
    for name, field in model.model_fields.items():
        if (field.alias or name) == step:
            if issubclass(model, Resource) and get_origin(field.annotation) is dict:
                from manager_kinds.factory import part_model_of  # noqa: PLC0415 - for an error alone

                return part_model_of(model, step)
            return _model_of(field.annotation)
    return None


def _model_of(annotation: Any) -> type[ApiModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        return annotation
    if get_origin(annotation) is dict:
        return None  # its names are anything
    found = (_model_of(each) for each in get_args(annotation))
    return next((each for each in found if each is not None), None)
