"""Objects between the version they are stored in and the one that is asked for."""

from __future__ import annotations

import copy
from typing import Any

from devcluster.kinds.resource import Resource
from devcluster.storage.records import Stored

__all__ = [
    "decoded",
    "head",
    "is_stored_as",
    "read",
    "rewritten",
    "storage_api_version",
    "to_request",
    "to_storage",
]

Object = dict[str, Any]


def is_stored_as(resource: Resource) -> bool:
    """Whether the objects of this version are stored as they are."""
    return resource.version == resource.storage_version and resource.store_as is None


def decoded(resource: Resource, stored: Stored) -> Object:
    """A stored object in its own version, but by the present rules of its kind."""
    obj = stored.decode()
    versions = resource.custom_versions
    if versions is not None and versions.is_stale(stored.version):
        versions.tidy(obj)
    return obj


async def read(resource: Resource, stored: Stored) -> Object:
    """A stored object in the version of `resource`."""
    return await to_request(resource, decoded(resource, stored))


async def to_request(resource: Resource, obj: Object) -> Object:
    """A decoded object in the version of `resource`; `obj` is the caller's to give away."""
    return (
        obj
        if obj.get("apiVersion") == resource.api_version
        else await _convert(resource, obj, resource.api_version)
    )


async def to_storage(resource: Resource, obj: Object) -> Object:
    """An object in the version that is stored; the same one when that is its own."""
    if is_stored_as(resource):
        return obj
    converted = await _convert(resource, obj, storage_api_version(resource))
    if resource.custom_versions is not None:  # what is read needs no second look
        resource.custom_versions.tidy(converted)
    return converted


def storage_api_version(resource: Resource) -> str:
    """What the stored objects say."""
    if resource.store_as is None:
        return resource.storage_api_version
    group = resource.store_as[0]
    return f"{group}/{resource.storage_version}" if group else resource.storage_version


def rewritten(resource: Resource, stored: Stored) -> bytes | None:
    """A stored object's JSON in the version of `resource`, where the version's name is all that differs."""
    versions, data = resource.custom_versions, stored.data
    if versions is not None and versions.is_stale(stored.version):
        return None
    before, wanted = storage_api_version(resource), resource.api_version
    if is_stored_as(resource):
        return data
    if resource.convert is not None or (versions is not None and not versions.are_alike(before, wanted)):
        return None
    known = head(resource.kind, before)
    if not data.startswith(known):
        return None
    return head(resource.kind, wanted) + data[len(known) :]


def head(kind: str, api_version: str) -> bytes:
    """How the JSON of a stored object begins."""
    return f'{{"kind":"{kind}","apiVersion":"{api_version}",'.encode()


async def _convert(resource: Resource, obj: Object, api_version: str) -> Object:
    if obj.get("apiVersion") == api_version:
        return obj
    if resource.convert is None:
        converted = {**obj, "apiVersion": api_version}
        if resource.custom_versions is not None:
            converted = copy.deepcopy(converted)  # what is pruned may be below
    else:
        metadata = obj["metadata"]
        (converted,) = await resource.convert([obj], api_version)
        converted.setdefault("metadata", metadata)
        converted = {"kind": converted.pop("kind"), "apiVersion": converted.pop("apiVersion"), **converted}
    if resource.custom_versions is not None:
        resource.custom_versions.prune(converted)
    return converted
