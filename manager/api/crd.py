"""The settings of a CustomResourceDefinition besides the schema of its kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Self, TypeVar

from manager.api.condition import ConditionType
from manager.api.resource import GroupVersionKind, Resource

R = TypeVar("R", bound=Resource)

_ATTRIBUTE = "crd_options"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get` between the name and the age.

    `json_path` is relative to the object (`.spec.size`). A `priority` above 0 shows the column with
    `-o wide` only. `format` refines the type, as in an OpenAPI schema.
    """

    name: str
    type: Literal["string", "integer", "number", "boolean", "date"]
    json_path: str
    description: str = ""
    priority: int = 0
    format: str | None = None

    @classmethod
    def reason_of(cls, condition: ConditionType) -> Self:
        """Return a column with the reason of this condition; `kubectl get` shows it only with `-o wide`."""
        path = f".status.conditions[?(@.type=='{condition}')].reason"
        return cls("Reason", "string", path, f"Why {condition} is true or not, in a word", priority=1)


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale subresource for `kubectl scale` and autoscalers: the paths of the counts in the object.

    `selector_path` points to a label selector in its string form; autoscalers need it, kubectl does not.
    """

    spec_path: str
    status_path: str
    selector_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CrdOptions:
    """The settings by which the server serves a kind.

    `status`: `.status` is written only through the status subresource (default: if the model has the field).
    `served`: the version answers requests (default: yes). `storage`: objects are stored in this version;
    exactly one version of a kind sets it (default: yes). `age`: the last column is the object's age (default:
    yes). `selectable_fields`: up to eight paths (`.spec.colour`) that `kubectl get --field-selector` accepts.

    Names, `annotations` and `labels` belong to the whole CustomResourceDefinition: set them in the version
    with `storage`; other versions have the same values or none. `singular` and `list_kind` default to names
    derived from the kind.
    """

    columns: tuple[Column, ...] = ()
    scale: Scale | None = None
    status: bool | None = None
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str | None = None
    list_kind: str | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the CustomResourceDefinition. A group that ends with `.k8s.io` or `.kubernetes.io` needs
    `{"api-approved.kubernetes.io": URL}`, with the approval's URL or `unapproved, ...`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    selectable_fields: tuple[str, ...] = ()
    storage: bool = True
    served: bool = True
    age: bool = True
    deprecated: str | None = None
    """A warning that the server sends to all users of the version; None if the version is not deprecated."""

    def __call__(self, kind: type[R]) -> type[R]:
        """Set the options of a kind, as a decorator: `@crd(short_names=("mc",))`."""
        setattr(kind, _ATTRIBUTE, self)
        return kind


crd = CrdOptions


def crd_options(kind: type[Resource]) -> CrdOptions:
    """Return the options in the kind's own `@crd`, or the defaults; `status` is never None."""
    options = kind.__dict__.get(_ATTRIBUTE)
    options = options if isinstance(options, CrdOptions) else CrdOptions()
    return replace(options, status="status" in kind.model_fields) if options.status is None else options


def is_crd(kind: type[Resource]) -> bool:
    """Return whether the kind has `@crd`; built-in kinds of the server do not have it."""
    return _ATTRIBUTE in kind.__dict__


def conflict_of_kinds(kinds: Iterable[type[Resource]]) -> tuple[str, str] | None:
    """Return the name of a kind whose version or plural is defined twice, and an error text; else None."""
    plurals: dict[tuple[str, str], str] = {}
    models: dict[GroupVersionKind, type[Resource]] = {}
    for kind in kinds:
        gvk = kind.gvk
        if (model := models.setdefault(gvk, kind)) is not kind:
            both = " and ".join(f"{each.__module__}.{each.__qualname__}" for each in (model, kind))
            return gvk.kind, f"a version is defined twice: {gvk.version}, by {both}"
        other = plurals.setdefault((gvk.group, kind.plural), gvk.kind)
        if other != gvk.kind:
            return gvk.kind, f"{other} has the plural {kind.plural} already"
    return None
