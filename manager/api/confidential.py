"""Masking of an object's confidential values, for every place that shows the object to people."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import AliasChoices, BaseModel, RootModel, Secret, SecretBytes, SecretStr
from pydantic.fields import FieldInfo

from manager.api.resource import Resource

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl stores a copy of the whole object, with all values of a Secret."""

_ABSENT = object()
_SECRET = "Secret"  # noqa: S105 - a kind
_VALUES = ("data", "stringData")
"""The fields of a Secret that are always masked, even without a model."""


def masked(obj: Mapping[str, Any], other: Mapping[str, Any] | None = None, when: str = "") -> dict[str, Any]:
    """Return a copy of an object's JSON in which confidential values are masked; keys stay visible.

    The masked values are fields with `Field(repr=False)`, fields of pydantic's secret types, and the values
    of a Secret; the annotation `LAST_APPLIED` is removed. `other` is the same object at another time; `when`
    is appended to the masks of values that differ.
    """
    group, _, _ = str(obj.get("apiVersion", "")).rpartition("/")
    shown, beside = dict(obj), dict(other or {})
    for model in _models_of(group, str(obj.get("kind"))):
        shown = _seen(shown, beside, model, when)
    if not group and obj.get("kind") == _SECRET:
        shown |= {name: _stars(obj[name], beside.get(name, _ABSENT), when) for name in _VALUES if name in obj}
    metadata = shown.get("metadata")
    if isinstance(metadata, Mapping) and LAST_APPLIED in (metadata.get("annotations") or ()):
        kept = {name: value for name, value in metadata["annotations"].items() if name != LAST_APPLIED}
        shown["metadata"] = {**metadata, "annotations": kept}
    return shown


def _models_of(group: str, kind: str) -> Iterator[type[Resource]]:
    """Return the models of all versions of the kind in this process."""
    known = [Resource]
    for model in known:
        known += model.__subclasses__()
        gvk = getattr(model, "gvk", None)
        if gvk is not None and (gvk.group, gvk.kind) == (group, kind):
            yield model


def _seen(value: Any, other: Any, annotation: Any, when: str) -> Any:
    """Return the value of a field of the type `annotation`, with its confidential parts masked."""
    annotation = _bare(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        for each in arguments:
            value = _seen(value, other, each, when)
    elif isinstance(annotation, type) and issubclass(annotation, RootModel):
        return _shown(*_members(annotation)["root"], value, other, when)
    elif isinstance(value, list) and arguments:
        beside = [*(other if isinstance(other, list) else ()), *[_ABSENT] * len(value)]
        by_place = origin is tuple and ... not in arguments
        kinds = [*arguments, *[None] * len(value)] if by_place else [arguments[0]] * len(value)
        return [_seen(each, beside[at], kinds[at], when) for at, each in enumerate(value)]
    elif isinstance(value, Mapping):
        others = other if isinstance(other, Mapping) else {}
        if members := _members(annotation):
            return {
                name: _shown(*members.get(name, (None, False)), each, others.get(name, _ABSENT), when)
                for name, each in value.items()
            }
        if origin is not None and len(arguments) == 2:  # noqa: PLR2004 - keys and values
            return {
                name: _seen(each, others.get(name, _ABSENT), arguments[1], when)
                for name, each in value.items()
            }
    return value


def _bare(annotation: Any) -> Any:
    """Return the annotation without `Annotated` and without type aliases."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif hasattr(annotation, "__value__"):
            annotation = annotation.__value__
        else:
            return annotation


def _members(annotation: Any) -> dict[str, tuple[Any, bool]]:
    """Return, by field name, the type of each field, and whether `repr` hides the field.

    `annotation` is a model, dataclass or typed dictionary; the result is empty for any other type. A field is
    listed under each of its names.
    """
    if not isinstance(annotation, type):
        return {}
    if issubclass(annotation, BaseModel):
        fields = annotation.model_fields.items()
        return {
            name: (each.annotation, each.repr is False) for key, each in fields for name in _names(key, each)
        }
    if dataclasses.is_dataclass(annotation):
        hints = get_type_hints(annotation)
        return {
            each.name: (hints[each.name], not (each.repr and getattr(each.default, "repr", True)))
            for each in dataclasses.fields(annotation)
        }
    if hasattr(annotation, "__total__"):
        return {name: (each, False) for name, each in get_type_hints(annotation).items()}
    return {}


def _names(name: str, field: FieldInfo) -> Iterator[str]:
    read = field.validation_alias
    choices = read.choices if isinstance(read, AliasChoices) else [read]
    for each in (name, field.alias, field.serialization_alias, *choices):
        if isinstance(each, str):
            yield each


def _shown(annotation: Any, hidden: bool, value: Any, other: Any, when: str) -> Any:
    if hidden or _is_secret(annotation):
        return _stars(value, other, when)
    return _seen(value, other, annotation, when)


def _is_secret(annotation: Any) -> bool:
    annotation = _bare(annotation)
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type) and issubclass(kind, (SecretStr, SecretBytes, Secret)):
        return True
    return any(map(_is_secret, get_args(annotation)))


def _stars(value: Any, other: Any, when: str) -> Any:
    if value is None:
        return None
    if isinstance(value, Mapping):
        others = other if isinstance(other, Mapping) else {}
        return {name: _stars(each, others.get(name, _ABSENT), when) for name, each in value.items()}
    return f"*** ({when})" if other is not _ABSENT and other != value else "***"
