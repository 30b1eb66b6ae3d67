"""The field that an author may have meant by one that the API server does not know."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from manager.api import ApiModel, Resource
from manager.kube.errors import BadRequest
from manager_kinds.factory import part_model_of

__all__ = ["name_nearest", "nearest_name"]

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


def nearest_name(model: type[ApiModel], name: str) -> str | None:
    """Return the JSON name of the model's field that a name stands for or resembles, or None."""
    names = {each: field.alias or each for each, field in model.model_fields.items()}
    return names.get(name) or next(iter(difflib.get_close_matches(name, names.values(), n=1)), None)


def _unknown(message: str) -> Iterator[str]:
    for match in _UNKNOWN.finditer(message):
        yield (match[1] or match[2]).lstrip(".")


def _nearest(kind: type[Resource], path: str) -> str | None:
    """Return the path with another last name, if the model at that place has a similar one."""
    *outer, last = _ITEM.sub("", path).split(".")
    model: type[ApiModel] | None = kind
    for step in outer:
        model = None if model is None else _model_in(model, step)
    near = None if model is None else nearest_name(model, last)
    return None if near is None else f"{path.removesuffix(last)}{near}"


def _model_in(model: type[ApiModel], step: str) -> type[ApiModel] | None:
    """Return the model of a field, or of its items."""
    for name, field in model.model_fields.items():
        if (field.alias or name) == step:
            if issubclass(model, Resource) and get_origin(field.annotation) is dict:
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
