"""Signatures of an author's methods, and the classes that their annotations allow."""

from __future__ import annotations

import inspect
import sys
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

if sys.version_info >= (3, 14):
    from annotationlib import Format


def parameters_of(cls: type, name: str) -> list[inspect.Parameter]:
    """Return the parameters of a method after self."""
    parameters = list(_signature(getattr(cls, name)).parameters.values())
    raw = inspect.getattr_static(cls, name)
    if isinstance(raw, staticmethod | classmethod) or not parameters:
        return parameters
    return parameters if parameters[0].kind is inspect.Parameter.VAR_POSITIONAL else parameters[1:]


def positional(cls: type, name: str, count: int) -> list[inspect.Parameter] | None:
    """Return the parameters but `*args` that `count` positional arguments fill; None if they do not fit."""
    is_method = not isinstance(inspect.getattr_static(cls, name), staticmethod | classmethod)
    if is_method and not _signature(getattr(cls, name)).parameters:
        return None  # not even self
    parameters = parameters_of(cls, name)
    try:
        given = inspect.Signature(parameters).bind(*range(count)).arguments
    except TypeError:
        return None
    return [each for each in parameters if each.name in given and each.kind is not each.VAR_POSITIONAL]


def _signature(function: Any) -> inspect.Signature:
    if sys.version_info >= (3, 14):  # by default it evaluates the names in annotations
        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def classes_of(annotation: Any, cls: type, function: Any) -> list[type] | None:
    """Return the classes that an annotation of a method of `cls` allows.

    Returns None if any class is allowed, or if that cannot be determined.
    """
    if annotation is inspect.Parameter.empty:
        return None
    if isinstance(annotation, str):
        places = getattr(inspect.unwrap(function), "__globals__", {})
        try:
            annotation = eval(annotation, places, dict(vars(cls)))  # noqa: S307 - the author's own annotation
        except Exception:  # noqa: BLE001 - imported only for type checkers, or local to a function
            return None
    return _alternatives(annotation)


def _alternatives(annotation: Any) -> list[type] | None:
    if annotation is None:
        return [NoneType]
    origin = get_origin(annotation)
    if origin in {Union, UnionType}:
        parts = [_alternatives(each) for each in get_args(annotation)]
        return None if None in parts else [each for part in parts if part for each in part]
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    plain = origin or annotation
    return [plain] if isinstance(plain, type) and plain not in {object, Any} else None


def is_subclass(given: type, of: type) -> bool:
    """Return whether a class is, or may be, a subclass of another one."""
    try:
        return issubclass(given, of)
    except TypeError:  # a protocol with data
        return True
