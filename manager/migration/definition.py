"""What of a CustomResourceDefinition concerns the storage of its objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from manager.api import GroupVersionKind, ObjectKey
from manager.kube.decoding import Decoder, not_a
from manager.kube.rest_mapping import RestMapping

__all__ = ["Definition", "decode_definition"]


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition as it was at `resource_version`.

    `storage` is the version in which the server stores what is written now, `stored` all in which there may
    be objects. `with_status` has the served versions that have a status subresource. `position` is the
    text of the annotation that says how far a migration has come, None without.
    """

    name: str
    uid: str
    generation: int
    resource_version: str
    group: str
    kind: str
    plural: str
    namespaced: bool
    storage: str
    served: tuple[str, ...]
    with_status: frozenset[str]
    stored: tuple[str, ...]
    position: str | None
    deleting: bool

    @property
    def uniform(self) -> bool:
        """Whether every object is stored in the storage version."""
        return set(self.stored) <= {self.storage}

    @property
    def version(self) -> str:
        """The version in which objects are read and written: the storage version, if that is served.

        Else another one, which the server stores in the storage version as well. Raises `IndexError` if no
        version is served.
        """
        return self.storage if self.storage in self.served else self.served[0]

    @property
    def subresource(self) -> str:
        """What of an object is written: its status where that is apart, else ("") all of it."""
        return "status" if self.version in self.with_status else ""

    def collection(self) -> str:
        """The path of all objects."""
        return self._mapping().path()

    def path(self, key: ObjectKey) -> str:
        """The path of what is written of an object."""
        return self._mapping().path(key.namespace, key.name, self.subresource)

    def _mapping(self) -> RestMapping:
        kind = GroupVersionKind(self.group, self.version, self.kind)
        return RestMapping(kind, self.plural, self.namespaced, verbs=frozenset(), subresources=frozenset())


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str
    generation: int = 0
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None


class _Names(msgspec.Struct):
    kind: str
    plural: str


class _Version(msgspec.Struct):
    name: str
    served: bool
    storage: bool
    subresources: dict[str, Any] | None = None


class _Spec(msgspec.Struct):
    group: str
    names: _Names
    scope: str
    versions: list[_Version]


class _Status(msgspec.Struct, rename="camel"):
    stored_versions: list[str] | None = None


class _Definition(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


_decode = Decoder(_Definition, "a CustomResourceDefinition")


def decode_definition(raw: bytes, *, position: str) -> Definition:
    """Read what the server answers; `position` names the annotation. Raises ProtocolError."""
    found = _decode(raw)
    storage = next((version.name for version in found.spec.versions if version.storage), None)
    if storage is None:
        raise not_a("a CustomResourceDefinition")
    metadata, spec = found.metadata, found.spec
    served = [version for version in spec.versions if version.served]
    return Definition(
        name=metadata.name,
        uid=metadata.uid,
        generation=metadata.generation,
        resource_version=metadata.resource_version,
        group=spec.group,
        kind=spec.names.kind,
        plural=spec.names.plural,
        namespaced=spec.scope == "Namespaced",
        storage=storage,
        served=tuple(version.name for version in served),
        with_status=frozenset(version.name for version in served if "status" in (version.subresources or ())),
        stored=tuple(found.status.stored_versions or ()),
        position=metadata.annotations.get(position),
        deleting=metadata.deletion_timestamp is not None,
    )
