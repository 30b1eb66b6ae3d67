"""The requests themselves; the answer to a write is at once what the cache shows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from manager.api import GroupVersionKind, ObjectKey, Resource
from manager.api.core_v1 import Secret, fold_string_data
from manager.cache import Cache
from manager.kube.errors import BadRequest, NoMatch, NoSubresource, NotFound, ServerError
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport


def merge_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the smallest merge patch that turns `before` into `after`; empty when they are equal.

    Objects are compared field by field, a field that vanished becomes null (which deletes it), and lists
    are replaced whole, because a merge patch has no other way to change one.
    """
    patch: dict[str, Any] = {}
    for name, new in after.items():
        if name not in before:
            patch[name] = new
            continue
        old = before[name]
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            nested = merge_diff(old, new)
            if nested:
                patch[name] = nested
        elif old != new or type(old) is not type(new):
            # Python calls True == 1 and 1 == 1.0 equal; JSON readers do not.
            patch[name] = new
    for name in before:
        if name not in after:
            patch[name] = None
    return patch


JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
# Apply takes YAML; JSON is YAML.
APPLY_PATCH = "application/apply-patch+yaml"

Query = Mapping[str, str]

_UNTYPED = "failed to create typed patch object"

DRY_RUN = {"dryRun": "All"}


STRICT = {"fieldValidation": "Strict"}
"""Has the server refuse fields that it does not know; else it drops them. It does so at each apply anyway."""


def booked(field_manager: str, *, dry_run: bool = False) -> Query:
    """What a write says of itself: under which name it is booked, and whether it is only to be tried."""
    return {"fieldManager": field_manager, **(DRY_RUN if dry_run else {})}


def sent_fields(obj: Resource) -> dict[str, Any]:
    """The object in JSON, as every write sends it."""
    wire = obj.to_wire()
    return fold_string_data(wire) if obj.gvk == Secret.gvk else wire


def whole_object(obj: Resource) -> dict[str, Any]:
    """The object as a create or an update sends it.

    Without `managedFields`: a cached object carries our own entries only, and the server would take them for
    all there are. Left out, they stay as they are.
    """
    wire = sent_fields(obj)
    wire.get("metadata", {}).pop("managedFields", None)
    return wire


class Writer:
    """Sends writes as bytes and hands each answer to the caches, so that the next read sees it.

    The answer to a dry run (see `booked`) is what would be, and no cache learns of it.
    """

    def __init__(self, transport: Transport, mapper: RestMapper, cache: Cache) -> None:
        self._transport = transport
        self._mapper = mapper
        self._cache = cache

    async def check_owners(self, obj: Resource, kind: type[Resource]) -> None:
        """Raise ValueError for an owner that the object cannot have: in a namespace, where it is in none.

        The garbage collector would take the object for an orphan, and delete it.
        """
        if kind.namespaced:
            return  # in which namespace the owner is, a reference does not say: it is the object's
        for owner in obj.metadata.owner_references:
            gvk = GroupVersionKind.from_api_version(owner.api_version, owner.kind)
            try:
                mapping = await self._mapper.resolve(gvk)
            except NoMatch:
                continue
            if mapping.namespaced:
                child = f"{kind.gvk.kind} {obj.metadata.name}"
                raise ValueError(f"{owner.kind} {owner.name} cannot own {child}, which is in no namespace")

    async def read(self, kind: type[Resource], key: ObjectKey, subresource: str = "") -> bytes:
        """The object as the server has it now, with every manager's fields."""
        mapping = await self._mapper.resolve(kind.gvk)
        path = mapping.path(key.namespace, key.name, subresource)
        async with self._subresource_checked(kind, subresource):
            return await self._transport.request("GET", path)

    async def send_create(self, kind: type[Resource], key: ObjectKey, body: bytes, query: Query) -> bytes:
        """POST to the collection; the object as stored. Raises ValueError for a missing namespace."""
        mapping = await self._mapper.resolve(kind.gvk)
        if mapping.namespaced and not key.namespace:
            raise ValueError(f"{kind.gvk} is namespaced: {key.name!r} needs a metadata.namespace")
        path = mapping.path(key.namespace)
        raw = await self._transport.request("POST", path, query=query, body=body, name=key.name)
        if "dryRun" not in query:
            self._cache.observe_write(kind, raw, before=0)
        return raw

    async def send(
        self,
        kind: type[Resource],
        key: ObjectKey,
        content_type: str,
        body: bytes,
        query: Query,
        subresource: str = "",
        *,
        replaces: str = "",
        creates: bool = False,
    ) -> bytes:
        """PUT the object, or a subresource of it, or PATCH it as the content type says; the object as stored.

        `replaces` is the resourceVersion that the body demands, if it does. `creates` says that the body
        cannot change an object that is there. Raises BadRequest for an apply that does not fit the schema.
        """
        mapping = await self._mapper.resolve(kind.gvk)
        path = mapping.path(key.namespace, key.name, subresource)
        method = "PUT" if content_type == JSON else "PATCH"
        try:
            async with self._subresource_checked(kind, subresource):
                raw = await self._transport.request(
                    method, path, query=query, body=body, content_type=content_type
                )
        except ServerError as error:
            # The server says 500 of an apply with a field it does not know, or with one key twice.
            if error.message.startswith(_UNTYPED):
                what = error.message.partition("): ")[2] or error.message
                raise BadRequest(400, "BadRequest", f"{kind.gvk.kind} {key}: {what}") from error
            raise
        if "dryRun" not in query:
            before = 0 if creates else int(replaces or 0) or None  # "0" demands nothing
            self._cache.observe_write(kind, raw, before=before)
        return raw

    async def send_delete(
        self, kind: type[Resource], key: ObjectKey, uid: str | None, options: Mapping[str, Any]
    ) -> None:
        """DELETE with DeleteOptions; `uid` is that of the object meant, where known."""
        mapping = await self._mapper.resolve(kind.gvk)
        body = orjson.dumps(options)
        raw = await self._transport.request("DELETE", mapping.path(key.namespace, key.name), body=body)
        if "dryRun" not in options:
            self._cache.observe_delete(kind, key, uid, raw)

    async def send_delete_collection(
        self, kind: type[Resource], namespace: str, query: Query, options: Mapping[str, Any]
    ) -> None:
        """DELETE of all objects that match; the caches learn of it by watch.

        The answer holds the objects as they were, so it does not tell which of them are gone and which are
        kept for now by a finalizer.
        """
        mapping = await self._mapper.resolve(kind.gvk)
        if mapping.namespaced and not namespace:
            raise ValueError(f"{kind.gvk} is namespaced: its objects are deleted in one namespace at a time")
        await self._transport.request(
            "DELETE", mapping.path(namespace), query=query, body=orjson.dumps(options)
        )

    async def send_subresource(
        self,
        method: str,
        kind: type[Resource],
        key: ObjectKey,
        subresource: str,
        body: bytes,
        content_type: str,
        query: Query,
    ) -> bytes:
        """A write whose answer is another object (a Scale, say): the caches learn of it by watch."""
        mapping = await self._mapper.resolve(kind.gvk)
        path = mapping.path(key.namespace, key.name, subresource)
        async with self._subresource_checked(kind, subresource):
            return await self._transport.request(
                method, path, query=query, body=body, content_type=content_type
            )

    @asynccontextmanager
    async def _subresource_checked(self, kind: type[Resource], subresource: str) -> AsyncIterator[None]:
        """Raise NoSubresource for a 404 because of that; the server answers as if the object were missing."""
        try:
            yield
        except NotFound:
            if not subresource:
                raise
            self._mapper.forget(kind.gvk)  # its definition may have been changed
            mapping = await self._mapper.resolve(kind.gvk)
            if subresource in mapping.subresources:
                raise
            name = f"{mapping.plural}.{kind.gvk.group}".rstrip(".")
            raise NoSubresource(
                f"the definition {name} has no subresource {subresource} in version {kind.gvk.version}: "
                f"the API server does not serve {mapping.plural}/{subresource}"
            ) from None
