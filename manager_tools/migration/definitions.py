"""CustomResourceDefinitions in a migration: storage versions, necessary rights, and requests.

`config/rbac/` has a ClusterRole with the rights for the operators' kinds, without a binding. Users who
migrate are usually administrators; for a Job, bind the role while the Job runs.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar
from urllib.parse import quote

import msgspec
import orjson

from manager.api import GroupVersionKind, ObjectKey, Resource, crd_options
from manager.api.resource import fields
from manager.api.rights import RbacRule
from manager.kube.decoding import Decoder, json_object, not_a
from manager.kube.errors import (
    ApiError,
    Conflict,
    ProtocolError,
    ServerError,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
    TransportError,
)
from manager.kube.rest_mapping import RestMapping
from manager.kube.transport import Transport
from manager.util.backoff import Backoff
from manager.util.program import Program

T = TypeVar("T")

RETRY_FOR = 120.0
"""Seconds for which requests to a server that is down or overloaded are retried, as during a restart."""

ATTEMPTS = 4
"""The number of attempts if the server responds with an error, which will probably remain."""

_AWAY = TransportError, TooManyRequests, ServiceUnavailable, ServerTimeout

_GROUP, _DEFINITIONS = "apiextensions.k8s.io", "customresourcedefinitions"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class RetryingClient:
    """A client that retries failed requests with back-off, if a retry may succeed.

    All requests of a migration may be sent twice: they read, or write unchanged objects.
    """

    def __init__(self, transport: Transport, rng: random.Random, *, tell: Callable[[str], object]) -> None:
        """Set up the client; `tell` gets the reason for a wait for a server that is down or overloaded."""
        self.once = transport.request
        self._rng = rng
        self._tell = tell

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        """Send a request by `Transport.request`, and repeat it as `retry` does."""
        return await self.retry(lambda: self.once(method, path, **options))

    async def retry(self, send: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `send`, with retries. Raises the last error after RETRY_FOR or ATTEMPTS."""
        clock = asyncio.get_running_loop().time
        backoff = Backoff(base=0.25, cap=10.0, jitter=0.5, rng=self._rng)
        give_up_at = clock() + RETRY_FOR
        failed = 0
        while True:
            try:
                return await send()
            except _AWAY as error:
                pause = _pause(error, backoff)
                if clock() + pause >= give_up_at:
                    raise
                self._tell(str(error))
            except (ServerError, Conflict) as error:
                failed += 1
                if failed >= ATTEMPTS:
                    raise
                pause = _pause(error, backoff)
            await asyncio.sleep(pause)


def _pause(error: Exception, backoff: Backoff) -> float:
    asked = error.retry_after if isinstance(error, ApiError) else None
    return asked or backoff.next()


class MigrationFailed(Exception):
    """A migration that cannot continue, with the reason in one line. Rewritten objects stay rewritten."""


class DefinitionChanged(Exception):
    """A CRD that has changed since the pass began, so that rewritten objects may be outdated."""


@dataclass(frozen=True, slots=True)
class StoredDefinition:
    """A CustomResourceDefinition as it was at `resource_version`.

    `storage` is the storage version, `stored` has all versions that stored objects may have, and
    `with_status` the served versions with a status subresource. `position` is the text of the annotation with
    a migration's progress, or None.
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
        """Return whether all objects are already stored in the storage version."""
        return set(self.stored) <= {self.storage}

    @property
    def version(self) -> str:
        """Return the version for reads and writes: the storage version, if it is served.

        Otherwise it returns another served version, which the API server stores in the storage version too.
        Raises `IndexError` if no version is served.
        """
        return self.storage if self.storage in self.served else self.served[0]

    @property
    def subresource(self) -> str:
        """Return the subresource to write: "status" if the kind has one, else "" for the object itself."""
        return "status" if self.version in self.with_status else ""

    def collection(self, namespace: str = "") -> str:
        """Return the path of all objects, or of the objects in a namespace."""
        return self._mapping().path(namespace)

    def path(self, key: ObjectKey) -> str:
        """Return the path for writing an object, with the subresource to write."""
        return self._mapping().path(key.namespace, key.name, self.subresource)

    def _mapping(self) -> RestMapping:
        kind = GroupVersionKind(self.group, self.version, self.kind)
        return RestMapping(kind, self.plural, self.namespaced, subresources=frozenset())


def decode_definition(raw: bytes, *, position: str) -> StoredDefinition:
    """Decode the API server's response; `position` is the annotation's key. Raises ProtocolError."""
    what = "a CustomResourceDefinition"
    found = json_object(raw, what)
    try:
        metadata, spec, versions = found["metadata"], found["spec"], found["spec"]["versions"]
        served = [version for version in versions if version["served"]]
        [storage] = (version["name"] for version in versions if version["storage"])
        return StoredDefinition(
            name=metadata["name"],
            uid=metadata["uid"],
            generation=metadata["generation"],
            resource_version=metadata["resourceVersion"],
            group=spec["group"],
            kind=spec["names"]["kind"],
            plural=spec["names"]["plural"],
            namespaced=spec["scope"] == "Namespaced",
            storage=storage,
            served=tuple(version["name"] for version in served),
            with_status=frozenset(
                version["name"] for version in served if "status" in (version.get("subresources") or ())
            ),
            stored=tuple((found.get("status") or {}).get("storedVersions") or ()),
            position=(metadata.get("annotations") or {}).get(position),
            deleting="deletionTimestamp" in metadata,
        )
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise not_a(what, error) from None


class Position(msgspec.Struct, frozen=True, rename={"storage": "storageVersion", "resume": "continue"}):
    """A position in the list of all objects. The objects before it are in the storage version.

    `resume` is the continue token for the list request from this position, "" at the start. `done` is the
    number of objects before it, for display.

    A position is valid for one generation of one CustomResourceDefinition only. If the storage version
    changes and changes back in the meantime, objects before the position may be in the other version again.
    Other changes of the CRD invalidate it too, which costs only requests and no writes.
    """

    uid: str
    generation: int
    storage: str
    resume: str = ""
    done: int = 0

    @classmethod
    def start(cls, definition: StoredDefinition) -> Self:
        """Return the position before the first object."""
        return cls(definition.uid, definition.generation, definition.storage)

    @classmethod
    def saved_in(cls, definition: StoredDefinition) -> Self | None:
        """Return the saved position of an earlier run; None if there is none or it is no longer valid."""
        if definition.position is None:
            return None
        try:
            kept = Decoder(cls, "a position")(definition.position.encode())
        except ProtocolError:
            return None  # of another program or version: a restart is always correct
        is_valid = msgspec.structs.replace(kept, resume="", done=0) == cls.start(definition)
        return kept if is_valid and kept.resume else None


class Definitions:
    """A client for the CustomResourceDefinitions that `program` migrates.

    Attributes: `position` is the key of the annotation with the progress, `field_manager` the client's field
    manager.
    """

    def __init__(self, client: RetryingClient, program: Program) -> None:
        self._client = client
        self.position = f"{program.name}/storage-migration"
        self.field_manager = f"{program.name}-migrate-storage"

    async def get(self, name: str) -> StoredDefinition:
        """Read the current CustomResourceDefinition; raise NotFound and other `KubeError`s."""
        return decode_definition(await self._client.request("GET", _path(name)), position=self.position)

    async def keep(self, definition: StoredDefinition, position: Position, *, retries: bool = True) -> None:
        """Store the position in the CustomResourceDefinition.

        Raises DefinitionChanged if the CRD has changed in the meantime, even if the position has been
        written. With `retries=False`, the request is sent once, with a short deadline.
        """
        annotations = {self.position: msgspec.json.encode(position).decode()}
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
        """Remove all versions except the storage version from the CRD's `status.storedVersions`.

        `definition` is the CRD at the start of the migration. Raises DefinitionChanged if its spec has since
        changed, or another CRD has its name. Returns False if another client has trimmed the versions.
        """

        async def send() -> bool:
            now = await self.get(definition.name)
            if (now.uid, now.generation) != (definition.uid, definition.generation):
                raise DefinitionChanged
            if now.uniform:
                return False
            # With the resourceVersion, this write fails after a concurrent change of the CRD.
            body = {
                "metadata": {"resourceVersion": now.resource_version},
                "status": {"storedVersions": [now.storage]},
            }
            await self._patch(f"{_path(now.name)}/status", body, retries=False)
            return True

        return await self._client.retry(send)

    async def clear(self, definition: StoredDefinition) -> None:
        """Remove the migration's position from the CRD; send no request if the CRD has none."""
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


def migration_rights(kinds: Iterable[type[Resource]]) -> list[RbacRule]:
    """Return the rules for `kinds`, which may include several versions of one kind.

    The rules allow a migration to get the CRDs, and to patch their annotations and their status; and to list
    the objects, and to patch the objects or, if the kind has the status subresource, their status.
    """
    rules: dict[RbacRule, None] = {}
    names: dict[str, None] = {}
    for kind in kinds:
        group, plural = kind.gvk.group, kind.plural
        names[f"{plural}.{group}"] = None
        written = f"{plural}/status" if crd_options(kind).status else plural
        rules[RbacRule((group,), (plural,), ("list",))] = None
        rules[RbacRule((group,), (written,), ("patch",))] = None
    named = tuple(names)
    return [
        RbacRule((_GROUP,), (_DEFINITIONS,), ("get", "patch"), named),
        RbacRule((_GROUP,), (f"{_DEFINITIONS}/status",), ("patch",), named),
        *rules,
    ]


async def missing_rights(client: RetryingClient, definition: StoredDefinition, *, dry_run: bool) -> list[str]:
    """Return the missing permissions in words, such as "patch pets.petstore.example.com".

    With this check, a migration does not fail at its last step after hours. If the API server refuses the
    check, the migration starts anyway; a server error is raised.
    """
    missing = []
    for attributes in _needed(definition, dry_run=dry_run):
        try:
            allowed = await _allowed(client, attributes)
        except ServerError:
            raise
        except (ApiError, ProtocolError):
            return []
        if not allowed:
            resource = "/".join(filter(None, (attributes["resource"], attributes["subresource"])))
            missing.append(f"{attributes['verb']} {resource}.{attributes['group']}")
    return missing


async def _allowed(client: RetryingClient, attributes: dict[str, str]) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = json_object(await client.request("POST", _REVIEWS, body=orjson.dumps(review)), "a review")
    return fields(answer, "status").get("allowed") is True


def _needed(definition: StoredDefinition, *, dry_run: bool) -> Iterator[dict[str, str]]:
    kind = {"group": definition.group, "version": definition.version, "resource": definition.plural}
    yield {**kind, "verb": "list", "subresource": ""}
    yield {**kind, "verb": "patch", "subresource": definition.subresource}
    if not dry_run:
        named = {"group": _GROUP, "version": "v1", "resource": _DEFINITIONS, "name": definition.name}
        yield {**named, "verb": "patch", "subresource": ""}
        yield {**named, "verb": "patch", "subresource": "status"}
