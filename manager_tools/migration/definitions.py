"""The storage versions of CustomResourceDefinitions: read, and trimmed when all objects are migrated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

import msgspec
import orjson

from manager.api import GroupVersionKind, ObjectKey
from manager.kube.decoding import Decoder, not_a
from manager.kube.errors import Conflict, ProtocolError
from manager.kube.rest_mapping import RestMapping
from manager.util.program import Program
from manager_tools.migration.retry import RetryingClient


class MigrationFailed(Exception):
    """The migration of a kind cannot go on; one line that says why. What has been rewritten stays so."""


class DefinitionChanged(Exception):
    """The definition has changed since the pass began: objects that were rewritten may be outdated."""


@dataclass(frozen=True, slots=True)
class StoredDefinition:
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
        """Return whether every object is stored in the storage version."""
        return set(self.stored) <= {self.storage}

    @property
    def version(self) -> str:
        """Return the version for reads and writes: the storage version, if it is served.

        Else another one, which the server stores in the storage version as well. Raises `IndexError` if no
        version is served.
        """
        return self.storage if self.storage in self.served else self.served[0]

    @property
    def subresource(self) -> str:
        """Return the written subresource: "status" if the kind has one, else "" for the object."""
        return "status" if self.version in self.with_status else ""

    def collection(self, namespace: str = "") -> str:
        """Return the path of all objects, or of those in a namespace."""
        return self._mapping().path(namespace)

    def path(self, key: ObjectKey) -> str:
        """Return the path for writing an object."""
        return self._mapping().path(key.namespace, key.name, self.subresource)

    def _mapping(self) -> RestMapping:
        kind = GroupVersionKind(self.group, self.version, self.kind)
        return RestMapping(kind, self.plural, self.namespaced, verbs=frozenset(), subresources=frozenset())


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str
    generation: int
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


def decode_definition(raw: bytes, *, position: str) -> StoredDefinition:
    """Read what the server answers; `position` names the annotation. Raises ProtocolError."""
    found = _decode(raw)
    storage = next((version.name for version in found.spec.versions if version.storage), None)
    if storage is None:
        raise not_a("a CustomResourceDefinition")
    metadata, spec = found.metadata, found.spec
    served = [version for version in spec.versions if version.served]
    return StoredDefinition(
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
    """A place in the list of all objects. Those before it are stored in the storage version.

    `resume` is what the server is asked for to go on there, "" at the start: a continue token, in the
    server's own order of the list. `done` is how many objects are before it, for people.

    It holds for one definition only, and for one generation of that: were the storage version changed and
    changed back in between, objects before the place would be stored in the other version again. That
    everything else in the definition counts as well costs requests only, and no write.
    """

    resume: str = ""
    done: int = 0

    @classmethod
    def kept_at(cls, definition: StoredDefinition) -> Self | None:
        """Return the saved position of an earlier run; None if there is none or it is no longer valid."""
        if definition.position is None:
            return None
        try:
            kept = _decode_position(definition.position.encode())
        except ProtocolError:
            return None  # of another program or a later version: starting anew is always right
        holds = (kept.uid, kept.generation, kept.storage) == _identity(definition)
        return cls(kept.resume, kept.done) if holds and kept.resume else None

    def text(self, definition: StoredDefinition) -> str:
        """Return the position as the annotation's value."""
        uid, generation, storage = _identity(definition)
        kept = _Kept(uid, generation, storage, self.resume, self.done)
        return msgspec.json.encode(kept).decode()


def _identity(definition: StoredDefinition) -> tuple[str, int, str]:
    return definition.uid, definition.generation, definition.storage


class Definitions:
    """The CustomResourceDefinitions of a cluster, as `program` migrates them.

    Attributes:
        position: the annotation of a definition in which it keeps how far it has come.
        field_manager: under which it writes.
    """

    def __init__(self, client: RetryingClient, program: Program) -> None:
        self._client = client
        self.position = f"{program.name}/storage-migration"
        self.field_manager = f"{program.name}-migrate-storage"

    async def get(self, name: str) -> StoredDefinition:
        """Read the current definition; raise NotFound and other `KubeError`s."""
        return decode_definition(await self._client.request("GET", _path(name)), position=self.position)

    async def keep(self, definition: StoredDefinition, position: Position, *, retries: bool = True) -> None:
        """Store the position in the definition.

        Raises DefinitionChanged, also where the position has been written, when the definition has become
        another one meanwhile. Without `retries`, it is sent once, and with a short deadline.
        """
        annotations = {self.position: position.text(definition)}
        body = {"metadata": {"uid": definition.uid, "annotations": annotations}}
        try:
            answer = await self._patch(
                _path(definition.name), body, retries=retries, deadline=None if retries else 5.0
            )
        except Conflict as error:
            raise DefinitionChanged(str(error)) from error
        if decode_definition(answer, position=self.position).generation != definition.generation:
            raise DefinitionChanged

    async def trim(self, definition: StoredDefinition) -> bool:
        """Leave the storage version as the only stored one.

        `definition` is the definition at the start of the migration. Raises DefinitionChanged if it differs
        now, also on a concurrent change. Returns False when another client has trimmed it already.
        """

        async def send() -> bool:
            now = await self.get(definition.name)
            if (now.uid, now.generation) != (definition.uid, definition.generation):
                raise DefinitionChanged
            if now.uniform:
                return False
            # The resource version makes a concurrent change of the definition win, and be noticed.
            body = {
                "metadata": {"resourceVersion": now.resource_version},
                "status": {"storedVersions": [now.storage]},
            }
            await self._patch(f"{_path(now.name)}/status", body, retries=False)
            return True

        return await self._client.retry(send)

    async def clear(self, definition: StoredDefinition) -> None:
        """Remove the position; sends nothing if there is none."""
        if (await self.get(definition.name)).position is None:
            return
        body = {"metadata": {"uid": definition.uid, "annotations": {self.position: None}}}
        await self._patch(_path(definition.name), body)

    async def _patch(
        self, path: str, body: Mapping[str, Any], *, retries: bool = True, deadline: float | None = None
    ) -> bytes:
        send = self._client.request if retries else self._client.once
        return await send(
            "PATCH",
            path,
            query={"fieldManager": self.field_manager},
            body=orjson.dumps(body),
            content_type="application/merge-patch+json",
            deadline=deadline,
        )


def _path(name: str) -> str:
    return f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{quote(name, safe='')}"
