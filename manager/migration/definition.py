"""What of a CustomResourceDefinition concerns its objects' storage, and how far their migration has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import msgspec

from manager.api import GroupVersionKind, ObjectKey
from manager.kube.decoding import Decoder, not_a
from manager.kube.errors import ProtocolError
from manager.kube.rest_mapping import RestMapping

__all__ = ["Definition", "DefinitionChanged", "MigrationFailed", "Position", "Refused", "decode_definition"]


class MigrationFailed(Exception):
    """The migration of a kind cannot go on; one line that says why. What has been rewritten stays so."""


class DefinitionChanged(Exception):
    """The definition is another one than when the pass began: what has been rewritten may be outdated."""


class Refused(Exception):
    """The server does not let one object be written as it is; the text is its reason.

    `failing` tells that it did not refuse the object so much as fail itself: a webhook that does not answer.
    """

    def __init__(self, reason: str, *, failing: bool) -> None:
        super().__init__(reason)
        self.failing = failing


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


class _Kept(msgspec.Struct, rename={"storage": "storageVersion", "resume": "continue"}):
    uid: str
    generation: int
    storage: str
    resume: str
    done: int


_decode_position = Decoder(_Kept, "a position")


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the list of all objects, before which each is stored as the definition says.

    `resume` is what the server is asked for to go on there, "" at the start: a continue token, in the
    server's own order of the list. `done` is how many objects are before it, for people.

    It holds for one definition only, and for one generation of that: were the storage version changed and
    changed back in between, objects before the place would be stored in the other version again. That
    everything else in the definition counts as well costs requests only, and no write.
    """

    resume: str = ""
    done: int = 0

    @classmethod
    def kept_at(cls, definition: Definition) -> Self | None:
        """The position that an earlier run has left, or None where there is none that holds."""
        if definition.position is None:
            return None
        try:
            kept = _decode_position(definition.position)
        except ProtocolError:
            return None  # somebody else's, or a later version's: the start is right for all
        holds = (kept.uid, kept.generation, kept.storage) == _identity(definition)
        return cls(kept.resume, kept.done) if holds and kept.resume else None

    def text(self, definition: Definition) -> str:
        """What is to be kept at the definition."""
        uid, generation, storage = _identity(definition)
        kept = _Kept(uid, generation, storage, self.resume, self.done)
        return msgspec.json.encode(kept).decode()


def _identity(definition: Definition) -> tuple[str, int, str]:
    return definition.uid, definition.generation, definition.storage
