"""The errors of the client beyond the API server's own.

KubeError
├── NotCached       a cached read of a kind, selection or namespace that no controller declared
├── OwnedByOther    an object with the wanted name exists and has another owner
├── Undecodable     an object does not fit its model
└── Conflict
    └── ApplyConflict   other field managers have set the fields of an unforced apply
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, get_args, get_origin

from pydantic import ValidationError

from manager.api import ApiModel, GroupVersionKind, ObjectKey, OwnerReference, Resource
from manager.kube.errors import BadRequest, Conflict, KubeError
from manager_kinds.factory import part_model_of


class NotCached(KubeError):
    """A cached read of a kind, selection or namespace that is not watched.

    Declare the kind in the operator's class (`owns`, `watches` or `reads`), or read from the server with
    `client.uncached`. If the kind is declared with a selector, read it with the same selector through
    `client.selecting`.
    """

    def __init__(self, what: str, mend: str) -> None:
        super().__init__(f"{what} is not cached: {mend}, or read it with client.uncached")


class OwnedByOther(KubeError):
    """An object with the wanted name exists, and has another controller, or none. Nothing was written.

    Attributes: `kind`, `key`, `controller` (None if the object has none), `finalizers` (None unless the
    object has a controller and is being deleted), and `made_here`: whether this client has created or applied
    the object, which has no controller now. Another client may have removed the owner reference.
    """

    def __init__(
        self,
        kind: str,
        key: ObjectKey,
        controller: OwnerReference | None,
        *,
        finalizers: Sequence[str] | None = None,
        made_here: bool = False,
    ) -> None:
        if controller:
            holder = f"belongs to {controller.kind} {controller.name}"
        else:
            holder = "has no owner" if made_here else "was created by somebody else"
        super().__init__(f"{kind} {key.name} already exists and {holder}")
        self.kind = kind
        self.key = key
        self.controller = controller
        self.finalizers = finalizers
        self.made_here = made_here


class Undecodable(KubeError):
    """An object does not fit its model: it was stored under another schema.

    A retry does not help; a change of the object, or another version of the program, does. A reconcile waits
    for such a change if its own object does not fit, and is retried if another object does not fit.

    Attributes: `gvk` and `key` of the object.
    """

    def __init__(self, gvk: GroupVersionKind, key: ObjectKey, cause: ValidationError) -> None:
        first = cause.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the object"
        super().__init__(f"{gvk.kind} {key}: {where}: {first['msg']}")
        self.gvk = gvk
        self.key = key


_is_owned = re.compile(r'conflict with "((?:[^"\\]|\\.)*)"').match


class FieldConflict(NamedTuple):
    """A field in conflict, in the server's notation (`.spec.replicas`), and the manager that has set it."""

    manager: str
    field: str


class ApplyConflict(Conflict):
    """A conflict of an apply with `force=False`: other managers have set its fields to other values.

    Nothing was written, unless the other managers set the fields during the call. A retry does not help until
    one side gives up the field.

    Attributes: `conflicts` has each field and its manager.
    """

    conflicts: tuple[FieldConflict, ...] = ()

    @classmethod
    def of(cls, error: Conflict) -> Self | None:
        """Convert a conflict that names other managers; return None for any other conflict."""
        causes = error.details.get("causes")
        conflicts = []
        for cause in causes if isinstance(causes, list) else ():
            if isinstance(cause, dict) and cause.get("reason") == "FieldManagerConflict":
                owned = _is_owned(str(cause.get("message", "")))
                conflicts.append(FieldConflict(owned[1] if owned else "", str(cause.get("field", ""))))
        if not conflicts:
            return None
        found = cls(error.status, error.reason, error.message, error.details)
        found.conflicts = tuple(conflicts)
        return found


# Messages for a strict create or update, and for an apply.
_UNKNOWN = re.compile(r'unknown field "([^"]+)"|(\.\S+): field not declared in schema')
_ITEM = re.compile(r"\[[^\]]*\]")
_LONGEST = 10_000
"""The number of characters of a message that are searched."""


def name_nearest(error: BadRequest, kind: type[Resource]) -> None:
    """Add similar field names of the kind to the message of a refused write."""
    paths = ((each[1] or each[2]).lstrip(".") for each in _UNKNOWN.finditer(error.message[:_LONGEST]))
    if found := [near for path in paths if (near := _nearest(kind, path))]:
        error.message += f"; did you mean {', '.join(found)}?"
        error.args = (error.message,)


def nearest_name(model: type[ApiModel], name: str) -> str | None:
    """Return the JSON name of the model's field that `name` denotes or resembles, or None."""
    names = {each: field.alias or each for each, field in model.model_fields.items()}
    return names.get(name) or next(iter(difflib.get_close_matches(name, names.values(), n=1)), None)


def _nearest(kind: type[Resource], path: str) -> str | None:
    """Return `path` with the model's most similar field as its last name; None if no field is similar."""
    *outer, last = _ITEM.sub("", path).split(".")
    model: type[ApiModel] | None = kind
    for step in outer:
        model = model and _model_in(model, step)
    near = None if model is None else nearest_name(model, last)
    return None if near is None else f"{path.removesuffix(last)}{near}"


def _model_in(model: type[ApiModel], step: str) -> type[ApiModel] | None:
    annotation = next(
        (each.annotation for name, each in model.model_fields.items() if (each.alias or name) == step), None
    )
    if issubclass(model, Resource) and get_origin(annotation) is dict:
        return part_model_of(model, step)
    return _model_of(annotation)


def _model_of(annotation: Any) -> type[ApiModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        return annotation
    parts = () if get_origin(annotation) is dict else get_args(annotation)  # a dict accepts any names
    return next(filter(None, map(_model_of, parts)), None)
