"""What of an object is not for those who look at it: one rule for all that shows objects to people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic.fields import FieldInfo

from manager.api.resource import Resource

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Here kubectl keeps a copy of the whole object, all values of a Secret included."""

_ABSENT = object()
_SECRET = "Secret"  # noqa: S105 - a kind
_VALUES = ("data", "stringData")
"""Of a Secret, whatever its model says, and also if there is none."""


def masked(obj: Mapping[str, Any], other: Mapping[str, Any] | None = None, when: str = "") -> dict[str, Any]:
    """A copy in which no value is that a model of its kind keeps from its `repr`; what has keys keeps these.

    Such are fields with `Field(repr=False)`, or of pydantic's secret types, as the values of a Secret. Of
    values that differ from those of `other`, the same object at another time, that they do is told by `when`.
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
    """All that this process has, of whatever version."""
    known = [Resource]
    for model in known:
        known += model.__subclasses__()
        gvk = getattr(model, "gvk", None)
        if gvk is not None and (gvk.group, gvk.kind) == (group, kind):
            yield model


def _seen(value: Any, other: Any, annotation: Any, when: str) -> Any:
    """The value, of which `annotation` says what it is."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _seen(value, other, arguments[0], when)
    if origin in (Union, UnionType):
        for each in arguments:
            value = _seen(value, other, each, when)
    elif isinstance(value, list) and arguments:
        beside = [*(other if isinstance(other, list) else ()), *[_ABSENT] * len(value)]
        return [_seen(each, beside[at], arguments[0], when) for at, each in enumerate(value)]
    elif isinstance(value, Mapping):
        others = other if isinstance(other, Mapping) else {}
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return {**value, **dict(_fields(value, others, annotation.model_fields, when))}
        if origin is not None and len(arguments) == 2:  # noqa: PLR2004 - of keys and values
            return {
                name: _seen(each, others.get(name, _ABSENT), arguments[1], when)
                for name, each in value.items()
            }
    return value


def _fields(
    value: Mapping[str, Any], others: Mapping[str, Any], fields: Mapping[str, FieldInfo], when: str
) -> Iterator[tuple[str, Any]]:
    for name, field in fields.items():
        wire = field.alias or name
        if wire not in value:
            continue
        found, beside = value[wire], others.get(wire, _ABSENT)
        if field.repr is False or _is_secret(field.annotation):
            yield wire, _stars(found, beside, when)
        else:
            yield wire, _seen(found, beside, field.annotation, when)


def _is_secret(annotation: Any) -> bool:
    return annotation in (SecretStr, SecretBytes) or any(map(_is_secret, get_args(annotation)))


def _stars(value: Any, other: Any, when: str) -> Any:
    if value is None:
        return None
    if isinstance(value, Mapping):
        others = other if isinstance(other, Mapping) else {}
        return {name: _stars(each, others.get(name, _ABSENT), when) for name, each in value.items()}
    return f"*** ({when})" if other is not _ABSENT and other != value else "***"
