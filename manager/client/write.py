"""The requests themselves; the answer to a write is at once what the cache shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manager.api import GroupVersionKind, ObjectKey, Resource
from manager.api.core_v1 import Secret, fold_string_data
from manager.cache import Cache
from manager.kube.errors import KubeError, NoMatch, NoSubresource, NotFound
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
    """The base of what sends writes: each answer goes to the caches, so that the next read sees it.

    The answer to a dry run (see `booked`) is what would be, and no cache learns of it.
    """

    def __init__(self, transport: Transport, mapper: RestMapper, cache: Cache) -> None:
        self._transport = transport
        self._mapper = mapper
        self._cache = cache

    async def _check_owners(self, obj: Resource, kind: type[Resource]) -> None:
        """Raise ValueError for an owner in a namespace, which an object in no namespace cannot have.

        The garbage collector would take the object for an orphan, and delete it. In which namespace an owner
        of other objects is, a reference does not say: it is the object's.
        """
        for owner in obj.metadata.owner_references:
            gvk = GroupVersionKind.from_api_version(owner.api_version, owner.kind)
            try:
                mapping = await self._mapper.resolve(gvk)
            except NoMatch:
                continue
            if mapping.namespaced:
                child = f"{kind.gvk.kind} {obj.metadata.name}"
                raise ValueError(f"{owner.kind} {owner.name} cannot own {child}, which is in no namespace")

    async def _read_stored(self, kind: type[Resource], key: ObjectKey, subresource: str = "") -> bytes:
        """Return the object as the server has it now, with every manager's fields."""
        mapping = await self._mapper.resolve(kind.gvk)
        path = mapping.path(key.namespace, key.name, subresource)
        try:
            return await self._transport.request("GET", path)
        except NotFound as error:
            raise await self._not_found(error, kind, subresource) from None

    async def _send(
        self,
        kind: type[Resource],
        key: ObjectKey,
        content_type: str,
        body: bytes,
        query: Query,
        subresource: str = "",
        *,
        replaces: str = "",
    ) -> bytes:
        """PUT the object, or a subresource of it, or PATCH it as the content type says; the object as stored.

        `replaces` is the resourceVersion that the body demands, if it does.
        """
        mapping = await self._mapper.resolve(kind.gvk)
        path = mapping.path(key.namespace, key.name, subresource)
        method = "PUT" if content_type == JSON else "PATCH"
        try:
            raw = await self._transport.request(
                method, path, query=query, body=body, content_type=content_type
            )
        except NotFound as error:
            raise await self._not_found(error, kind, subresource) from None
        if "dryRun" not in query:
            # "0" demands nothing
            self._cache.observe_write(kind, raw, before=int(replaces or 0) or None)
        return raw

    async def _not_found(self, error: NotFound, kind: type[Resource], subresource: str) -> KubeError:
        """Return what a 404 means: of a missing subresource the server says the same as of the object."""
        if not subresource:
            return error
        self._mapper.forget(kind.gvk)  # its definition may have been changed
        mapping = await self._mapper.resolve(kind.gvk)
        if subresource in mapping.subresources:
            return error
        name = f"{mapping.plural}.{kind.gvk.group}".rstrip(".")
        return NoSubresource(
            f"the definition {name} has no subresource {subresource} in version {kind.gvk.version}: "
            f"the API server does not serve {mapping.plural}/{subresource}"
        )
