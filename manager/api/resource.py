"""Objects of the API: their kind, key and metadata, for kinds with and without a model."""

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

# A function that sets attributes without pydantic's checks.
_set = object.__setattr__


class _Reference(Protocol):
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
        """Build a `GroupVersionKind` from an object's `apiVersion` (`v1`, `apps/v1`) and `kind`."""
        group, _, version = api_version.rpartition("/")
        return cls(group, version, kind)

    def is_named_by(self, reference: _Reference) -> bool:
        """Return whether a reference names this kind, in any version."""
        group, _, _ = reference.api_version.rpartition("/")
        return (group, reference.kind) == (self.group, self.kind)

    @property
    def api_version(self) -> str:
        """Return the `apiVersion` of objects of this kind: `v1`, `apps/v1`."""
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


# The constructor of a named tuple is a slow Python function, and keys are created very often.
_new_key: Callable[[tuple[str, str]], ObjectKey] = partial(tuple.__new__, ObjectKey)


class OwnerReference(ApiModel):
    """A reference to an owner; the garbage collector deletes an object that has lost its last owner."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    """True for the one owner that manages the object."""
    block_owner_deletion: bool | None = None
    """Whether a foreground deletion of the owner waits until the object is gone."""


class ObjectMeta(ApiModel):
    """An object's metadata, as controllers use it; other fields (`managedFields`) are kept unchanged.

    Strings and collections are never None: a field that the server omits is empty here, and an empty field is
    omitted in JSON, because both have the same meaning in metadata.
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
        """Return the schema of a template's metadata, without the fields that only the server sets.

        An object's own metadata gets the server's schema instead.
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

    A kind is declared by class keywords:

        class Memcached(Resource, group="cache.example.com", version="v1", plural="memcacheds"): ...

    `kind` defaults to the class name, `namespaced` to True. `apiVersion` and `kind` are set in each object,
    even if the server omits them, as in the items of a list.
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
            return  # a subclass for the same kind as its parent
        if version is None or plural is None:
            raise TypeError(f"{cls.__name__} must name its version and its plural")
        cls.gvk = GroupVersionKind(group, version, kind or cls.__name__)
        cls.plural = plural
        cls.namespaced = namespaced
        # Pydantic collects the fields later, and uses these values as defaults of the inherited fields.
        cls.api_version = cls.gvk.api_version
        cls.kind = cls.gvk.kind

    @classmethod
    def decode(cls, raw: bytes | bytearray | memoryview, *, parsed: dict[str, Any] | None = None) -> Self:
        """Decode the JSON of one object, and store the JSON as the object's `origin`.

        A caller that has already parsed the JSON passes the result as `parsed`, which saves half of the work;
        the object may then share parts of the result.

        Raises pydantic.ValidationError for invalid JSON, or JSON that does not fit the kind.
        """
        # Bytes are not copied: objects share the cache's own copy.
        origin = raw if isinstance(raw, bytes) else bytes(raw)
        decoded = cls.model_validate_json(origin) if parsed is None else cls.model_validate(parsed)
        _set(decoded, "_origin", origin)
        return decoded

    @property
    def origin(self) -> bytes | None:
        """Return the JSON from which the object was decoded; None if the object was created in code."""
        return getattr(self, "_origin", None)

    def take(self, stored: Resource, *, sent: Mapping[str, Any]) -> None:
        """Update the object in place from the answer to a write, and replace its `origin`.

        Fields that this program has changed since it sent the write keep their values, and count as unsent
        changes. Nested models, lists and maps stay the same objects. `sent` has the JSON of all fields that
        the write could change, as it was at the time of sending.
        """
        if stored is self or stored.origin is None:
            return
        read = {} if self.origin is None else type(self).model_validate_json(self.origin).to_wire()
        take_over(self, stored, {**read, **sent}, self.to_wire(), stored.to_wire())
        _set(self, "_origin", stored.origin)

    def __copy__(self) -> Self:
        return self._with_origin(super().__copy__())

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self._with_origin(super().__deepcopy__(memo))

    @property
    def key(self) -> ObjectKey:
        """Return the namespace and the name of the object."""
        metadata = self.metadata
        return _new_key((metadata.namespace, metadata.name))

    def __eq__(self, other: object) -> bool:
        """Return whether all fields are equal; the `origin` does not matter."""
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
    """The answer to a request for metadata only, without the kind of the object."""


class Unstructured(Resource):
    """An object of a kind without a model; all fields except the metadata are plain JSON.

        Widget = Unstructured.of("example.com/v1", "Widget")
        widget = await client.get(Widget, key)
        widget.content["spec"]["size"] += 1
        await client.patch(widget)

    `of` returns a kind for sources, caches, reads, writes, owners and children. If scope or plural are
    unknown, `client.discover` asks the API server.
    """

    @staticmethod
    def of(api_version: str, kind: str, *, plural: str = "", namespaced: bool = True) -> type[Unstructured]:
        """Return the class of this kind; a call with the same arguments returns the same class.

        `plural` names the kind in logs and metrics; by default, it is derived from `kind`. Requests do not
        need it, because discovery finds the plural.
        """
        gvk = GroupVersionKind.from_api_version(api_version, kind)
        if not gvk.version or not gvk.kind:
            raise ValueError(f"a kind needs an apiVersion and a name, not {api_version!r} and {kind!r}")
        return _kind(gvk, plural or _plural(kind), namespaced)

    @staticmethod
    def parse(wire: Mapping[str, Any]) -> Unstructured:
        """Create the object of a manifest; an object without a namespace counts as cluster-scoped.

        Raises ValueError if apiVersion or kind are missing, or for invalid metadata.
        """
        metadata = wire.get("metadata")
        namespaced = isinstance(metadata, Mapping) and bool(metadata.get("namespace"))
        kind = Unstructured.of(
            str(wire.get("apiVersion", "")), str(wire.get("kind", "")), namespaced=namespaced
        )
        return kind.model_validate(copy.deepcopy(dict(wire)))

    @property
    def content(self) -> dict[str, Any]:
        """Return all fields except apiVersion, kind and metadata; you may change them in place."""
        assert self.model_extra is not None
        return self.model_extra

    def to_wire(self, *, only: set[str] | None = None) -> dict[str, Any]:
        """Return the JSON form; nulls in the content are kept. With `only`, return just these fields."""
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
    name = kind.lower()
    if name.endswith(("s", "x", "ch", "sh")):
        return f"{name}es"
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}s"


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """Return the owner reference of the object's controller, or None."""
    for reference in meta.owner_references:
        if reference.controller:
            return reference
    return None


def controller_reference(owner: Resource, child: ObjectMeta) -> OwnerReference:
    """Return the reference that makes `owner` the controller of a child; `owner` has to be stored already.

    `child` is the child's metadata; it is not changed. Raises ValueError if `owner` has no UID yet, or is in
    a namespace that differs from the child's. The garbage collector would treat such a child as an orphan and
    delete it.
    """
    return OwnerReference(**reference_to(owner, child))


def reference_to(owner: Resource, child: ObjectMeta) -> dict[str, Any]:
    """Return the owner reference of `controller_reference` as JSON."""
    metadata = owner.metadata
    if not metadata.uid:
        raise ValueError(f"{owner.kind} {owner.key} has no UID yet, so it cannot own anything")
    if owner.namespaced and child.namespace != metadata.namespace:
        where = f"is in namespace {child.namespace}" if child.namespace else "is in no namespace"
        raise ValueError(f"{owner.kind} {owner.key} cannot own {child.name}, which {where}")
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def recommended_labels(
    owner: Resource, program: str, *, name: str = "", component: str = "", part_of: str = ""
) -> dict[str, str]:
    """Return Kubernetes' recommended labels for objects that `program` creates for `owner`.

    `name` is the application's name, by default the owner's kind in lower case; `component` is its role in
    the application `part_of`. The server refuses a label value of more than 63 characters, such as a long
    owner name.
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
    """Return whether `owner` is the controller; UIDs are compared, because names can be reused."""
    controller = controller_of(meta)
    return controller is not None and controller.uid == owner.metadata.uid


# Access to JSON of any shape: a kind may have no schema, and a server may answer anything. A value of an
# unexpected type counts as missing.


def fields(found: Any, *names: str) -> Mapping[str, Any]:
    """Return the JSON object under these nested names; empty if there is none."""
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def objects(found: Any) -> list[Mapping[str, Any]]:
    """Return the items of a list that are JSON objects; empty if `found` is no list."""
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text(found: Any) -> str:
    """Return a string unchanged, a number or boolean as JSON, and "" for anything else."""
    if isinstance(found, str):
        return found
    return orjson.dumps(found).decode() if isinstance(found, int | float) else ""


def number(found: Any, otherwise: int = 0) -> int:
    """Return a whole number unchanged, and `otherwise` for anything else."""
    return found if isinstance(found, int) and not isinstance(found, bool) else otherwise


def event_time(event: Any) -> str:
    """Return the time of an Event's last occurrence in RFC 3339; empty if it is missing."""
    series = fields(event, "series").get("lastObservedTime")
    times = [series, *(fields(event).get(name) for name in ("lastTimestamp", "eventTime"))]
    times.append(fields(event, "metadata").get("creationTimestamp"))
    return next(filter(None, map(text, times)), "")
