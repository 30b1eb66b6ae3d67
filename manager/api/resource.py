"""Objects of the API: their kind, key and metadata, with a model of their kind and without one."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache, partial
from types import new_class
from typing import Any, ClassVar, NamedTuple, Protocol, Self, Unpack

import orjson
from pydantic import ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from manager.api.model import ApiModel, take_over

# Sets attributes without pydantic's checks.
_set = object.__setattr__


class _Reference(Protocol):
    """An object that names a kind, such as an owner reference."""

    @property
    def api_version(self) -> str: ...

    @property
    def kind(self) -> str: ...


class GroupVersionKind(NamedTuple):
    """API group (empty for the core group), version and kind."""

    group: str
    version: str
    kind: str

    @classmethod
    def from_api_version(cls, api_version: str, kind: str) -> GroupVersionKind:
        """Build one from an object's `apiVersion` (`v1`, `apps/v1`) and `kind`."""
        group, _, version = api_version.rpartition("/")
        return cls(group, version, kind)

    def is_named_by(self, reference: _Reference) -> bool:
        """Return whether a reference means this kind, in any version of the kind."""
        group, _, _ = reference.api_version.rpartition("/")
        return (group, reference.kind) == (self.group, self.kind)

    @property
    def api_version(self) -> str:
        """The `apiVersion` of objects of this kind: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """Format the kind as kubectl does: `Deployment.v1.apps`, `Pod.v1`."""
        return f"{self.kind}.{self.version}.{self.group}" if self.group else f"{self.kind}.{self.version}"


class ObjectKey(NamedTuple):
    """Namespace and name; the namespace of a cluster-scoped object is the empty string."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


# A named tuple's constructor is a function of Python, and keys are made all the time.
_new_key: Callable[[tuple[str, str]], ObjectKey] = partial(tuple.__new__, ObjectKey)


class OwnerReference(ApiModel):
    """Names an owner, in the same namespace or cluster-scoped; when all owners are gone, so is the object."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    """True for the one owner that manages the object."""
    block_owner_deletion: bool | None = None
    """True to keep the owner, when it is deleted in the foreground, until the object is gone."""


class ObjectMeta(ApiModel):
    """An object's metadata, as far as controllers use it; the rest (`managedFields`) stays as it came.

    Strings and collections are always there: a field that the server left out is empty here, and an empty
    field is left out on the wire, because in metadata the two mean the same.
    """

    name: str = Field(default="", exclude_if=operator.not_)
    namespace: str = Field(default="", exclude_if=operator.not_)
    generate_name: str = Field(default="", exclude_if=operator.not_)
    uid: str = Field(default="", exclude_if=operator.not_)
    resource_version: str = Field(default="", exclude_if=operator.not_)
    generation: int = Field(default=0, exclude_if=operator.not_)
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = Field(default_factory=dict, exclude_if=operator.not_)
    annotations: dict[str, str] = Field(default_factory=dict, exclude_if=operator.not_)
    finalizers: list[str] = Field(default_factory=list, exclude_if=operator.not_)
    owner_references: list[OwnerReference] = Field(default_factory=list, exclude_if=operator.not_)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema of a template's metadata, which lacks what only the server sets.

        An object's own metadata has the server's schema instead.
        """
        del core_schema, handler
        text = {"type": "string"}
        texts = {"type": "object", "additionalProperties": text}
        properties = {
            "annotations": texts,
            "finalizers": {"type": "array", "items": text},
            "labels": texts,
            "name": text,
            "namespace": text,
        }
        return {"type": "object", "properties": properties}


class Resource(ApiModel):
    """An object of the API.

    A kind names itself by class keywords:

        class Memcached(Resource, group="cache.example.com", version="v1", plural="memcacheds"): ...

    `kind` defaults to the class name, `namespaced` to True. `apiVersion` and `kind` of each object are
    filled in, also where the server leaves them out, as in the items of a list.
    """

    # A slot, because a private attribute of pydantic doubles the cost of decoding.
    __slots__ = ("_origin",)

    gvk: ClassVar[GroupVersionKind]
    plural: ClassVar[str]
    namespaced: ClassVar[bool]

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)

    def __init_subclass__(
        cls,
        *,
        group: str = "",
        version: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        namespaced: bool = True,
        **kwargs: Unpack[ConfigDict],
    ) -> None:
        super().__init_subclass__(**kwargs)
        if version is None and plural is None:
            return  # a variant of its parent's kind
        if version is None or plural is None:
            raise TypeError(f"{cls.__name__} must name its version and its plural")
        cls.gvk = GroupVersionKind(group, version, kind or cls.__name__)
        cls.plural = plural
        cls.namespaced = namespaced
        # Pydantic collects the fields after this, and takes these as the defaults of the inherited ones.
        cls.api_version = cls.gvk.api_version
        cls.kind = cls.gvk.kind

    @classmethod
    def decode(cls, raw: bytes | bytearray | memoryview, *, parsed: dict[str, Any] | None = None) -> Self:
        """Decode the JSON of one object, and remember it as the object's `origin`.

        A caller that has parsed the JSON already passes the result as `parsed`, which saves half of the work;
        the object may share parts of it from then on.

        Raises pydantic.ValidationError when it is not JSON or not of this kind's shape.
        """
        # Bytes stay as they are: the cache's own copy is shared, not doubled.
        origin = raw if isinstance(raw, bytes) else bytes(raw)
        decoded = cls.model_validate_json(origin) if parsed is None else cls.model_validate(parsed)
        _set(decoded, "_origin", origin)
        return decoded

    @property
    def origin(self) -> bytes | None:
        """The JSON that the object was decoded from, whatever has changed since; None if made in code."""
        return getattr(self, "_origin", None)

    def take(self, stored: Resource, *, sent: Mapping[str, Any]) -> None:
        """Take over the changes in the answer to a write, and its origin; in place.

        Fields that were changed here stay, and count as changes of that state from now on. Nested models,
        lists and maps stay the same objects. `sent` has the JSON of the fields that the write could change,
        as it was then, by their names in JSON.
        """
        if stored is self or stored.origin is None:
            return
        read = {} if self.origin is None else type(self).model_validate_json(self.origin).to_wire()
        take_over(self, stored, {**read, **sent}, self.to_wire(), stored.to_wire())
        _set(self, "_origin", stored.origin)

    def __copy__(self) -> Self:
        """Return a copy with the same origin."""
        return self._with_origin(super().__copy__())

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return a deep copy with the same origin."""
        return self._with_origin(super().__deepcopy__(memo))

    @property
    def key(self) -> ObjectKey:
        """The namespace and the name of the object."""
        metadata = self.metadata
        return _new_key((metadata.namespace, metadata.name))

    def __eq__(self, other: object) -> bool:
        """Equal when all fields are; where they were read from does not matter."""
        if type(self) is not type(other):
            return NotImplemented
        return self.__dict__ == other.__dict__ and self.model_extra == other.model_extra

    __hash__ = None  # type: ignore[assignment] # objects change

    def _with_origin(self, copied: Self) -> Self:
        if self.origin is not None:
            _set(copied, "_origin", self.origin)
        return copied


class PartialObjectMetadata(
    Resource, group="meta.k8s.io", version="v1", plural="partialobjectmetadatas", namespaced=True
):
    """The server's answer to a request for metadata only; it does not name the object's own kind."""


class Unstructured(Resource):
    """An object of a kind without a model; its fields beside the metadata are plain JSON.

        Widget = Unstructured.of("example.com/v1", "Widget")
        widget = await client.get(Widget, key)
        widget.content["spec"]["size"] += 1
        await client.patch(widget)

    `of` returns a kind that works as every other: for sources, caches, reads, writes, owners and children. If
    scope or plural are unknown, `client.discover` asks the API server.
    """

    @staticmethod
    def of(api_version: str, kind: str, *, plural: str = "", namespaced: bool = True) -> type[Unstructured]:
        """Return the kind of that name; the same one each time.

        Requests do not need `plural`, because discovery finds it. Logs and metrics name the kind by it; the
        default is derived from `kind`.
        """
        gvk = GroupVersionKind.from_api_version(api_version, kind)
        if not gvk.version or not gvk.kind:
            raise ValueError(f"a kind has an apiVersion and a name, not {api_version!r} and {kind!r}")
        return _kind(gvk, plural or _plural(kind), namespaced)

    @staticmethod
    def parse(wire: Mapping[str, Any]) -> Unstructured:
        """Make the object of a manifest; an object without a namespace counts as cluster-scoped.

        Raises ValueError if apiVersion or kind are missing, or the metadata is of another shape.
        """
        metadata = wire.get("metadata")
        namespaced = isinstance(metadata, Mapping) and bool(metadata.get("namespace"))
        kind = Unstructured.of(
            str(wire.get("apiVersion", "")), str(wire.get("kind", "")), namespaced=namespaced
        )
        return kind.model_validate(copy.deepcopy(dict(wire)))

    @property
    def content(self) -> dict[str, Any]:
        """All but apiVersion, kind and metadata: `spec`, `status`, `data`; to be changed in place."""
        assert self.model_extra is not None
        return self.model_extra

    def to_wire(self, *, only: set[str] | None = None) -> dict[str, Any]:
        """Return the JSON form, with nulls where the content has them; with `only`, just these fields."""
        wire = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": self.metadata.to_wire(),
            **copy.deepcopy(self.content),
        }
        return wire if only is None else {name: value for name, value in wire.items() if name in only}


@cache
def _kind(gvk: GroupVersionKind, plural: str, namespaced: bool) -> type[Unstructured]:
    named = {"group": gvk.group, "version": gvk.version, "kind": gvk.kind}
    return new_class(gvk.kind, (Unstructured,), {**named, "plural": plural, "namespaced": namespaced})


def _plural(kind: str) -> str:
    """Return the usual plural of a kind in lower case."""
    name = kind.lower()
    if name.endswith(("s", "x", "ch", "sh")):
        return f"{name}es"
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}s"


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """Return the reference to the owner that manages the object, or None."""
    for reference in meta.owner_references:
        if reference.controller:
            return reference
    return None


def controller_reference(owner: Resource, child: ObjectMeta) -> OwnerReference:
    """Return the reference that makes `owner`, which must exist on the server, the controller of a child.

    `child` is the child's metadata; it is not changed. Raises ValueError when `owner` cannot own it: it has
    no UID yet, or it lives in a namespace and the child in another or in none. The garbage collector would
    take such a child for an orphan, and delete it.
    """
    return OwnerReference(**reference_to(owner, child))


def reference_to(owner: Resource, child: ObjectMeta) -> dict[str, Any]:
    """Return the reference of `controller_reference` as JSON fields."""
    if not owner.metadata.uid:
        raise ValueError(f"{owner.kind} {owner.key} has no UID yet, so it cannot own anything")
    if owner.namespaced and child.namespace != owner.metadata.namespace:
        where = f"is in namespace {child.namespace}" if child.namespace else "is in no namespace"
        raise ValueError(f"{owner.kind} {owner.key} cannot own {child.name}, which {where}")
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def recommended_labels(
    owner: Resource, program: str, *, name: str = "", component: str = "", part_of: str = ""
) -> dict[str, str]:
    """Return Kubernetes' recommended labels for `program`'s objects for `owner`; tools group objects by them.

    `name` is the application's, by default the owner's kind in lower case; `component` is its role in the
    application `part_of`. An owner's name of more than 63 characters does not fit a label: the server refuses
    it.
    """
    labels = {
        "app.kubernetes.io/name": name or owner.gvk.kind.lower(),
        "app.kubernetes.io/instance": owner.metadata.name,
        "app.kubernetes.io/managed-by": program,
    }
    if component:
        labels["app.kubernetes.io/component"] = component
    if part_of:
        labels["app.kubernetes.io/part-of"] = part_of
    return labels


def is_controlled_by(meta: ObjectMeta, owner: Resource) -> bool:
    """Return whether `owner` is the controller, by UID, because another object can reuse its name."""
    controller = controller_of(meta)
    return controller is not None and controller.uid == owner.metadata.uid


# Access to JSON of any shape: a kind may have no schema, and a server may answer anything. A value of an
# unexpected type counts as absent.


def fields(found: Any, *names: str) -> Mapping[str, Any]:
    """Return the object under these nested names; empty if there is none."""
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def objects(found: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list, without its other items."""
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text(found: Any) -> str:
    """Return a string as it is, a number or boolean as JSON, and "" for anything else."""
    if isinstance(found, str):
        return found
    return orjson.dumps(found).decode() if isinstance(found, int | float) else ""


def number(found: Any, otherwise: int = 0) -> int:
    """Return a whole number as it is, and `otherwise` for anything else."""
    return found if isinstance(found, int) and not isinstance(found, bool) else otherwise


def event_time(event: Any) -> str:
    """When an Event happened last, in RFC 3339; empty if it does not say."""
    series = fields(event, "series").get("lastObservedTime")
    times = [series, *(fields(event).get(name) for name in ("lastTimestamp", "eventTime"))]
    times.append(fields(event, "metadata").get("creationTimestamp"))
    return next(filter(None, map(text, times)), "")
