"""The base of every kind, and the owner references of objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, Unpack

import orjson
from pydantic import ConfigDict, Field

from manager.api.merging import as_model_says, take_changes
from manager.api.meta import GroupVersionKind, ObjectKey, ObjectMeta, OwnerReference
from manager.api.model import ApiModel

# Sets attributes without pydantic's checks.
_set = object.__setattr__


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

    def rebase(self, stored: Resource) -> None:
        """Take over metadata and origin from `stored`, the latest read or written state of the same object.

        All other changes made here stay, and now count as changes of that state.
        """
        self.metadata = stored.metadata
        if stored.origin is not None:
            _set(self, "_origin", stored.origin)

    def take(self, stored: Resource, *, sent: Mapping[str, Any]) -> None:
        """Take over the changes in the answer to a write, and its origin; in place.

        Fields that were changed here stay, and count as changes of that state from now on. Nested models,
        lists and maps stay the same objects. `sent` has the JSON of the fields that the write could change,
        as it was then, by their names in JSON.
        """
        if stored is self or stored.origin is None:
            return
        was, there = orjson.loads(self.origin or b"{}"), orjson.loads(stored.origin)
        changed = [each for each in {**was, **there} if each in sent or was.get(each) != there.get(each)]
        names = {field.alias or name: name for name, field in type(self).model_fields.items()}
        before, after = dict[str, Any](), dict[str, Any]()
        for each in changed:
            name = names.get(each, each)
            held, theirs = getattr(self, name, None), getattr(stored, name, None)
            before[each] = sent[each] if each in sent else as_model_says(held, was.get(each))
            if each in there:
                after[each] = as_model_says(theirs, there[each])
        take_changes(self, stored, before=before, after=after, now=self.to_wire())
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
        return ObjectKey(self.metadata.namespace, self.metadata.name)

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
        "apiVersion": owner.gvk.api_version,
        "kind": owner.gvk.kind,
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
        "name": name or owner.gvk.kind.lower(),
        "instance": owner.metadata.name,
        "component": component,
        "part-of": part_of,
        "managed-by": program,
    }
    return {f"app.kubernetes.io/{label}": value for label, value in labels.items() if value}


def is_controlled_by(meta: ObjectMeta, owner: Resource) -> bool:
    """Return whether `owner` is the controller, by UID, because another object can reuse its name."""
    controller = controller_of(meta)
    return controller is not None and controller.uid == owner.metadata.uid
