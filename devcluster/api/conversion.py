"""Objects between the version they are stored in and the one that is asked for."""

from __future__ import annotations

from typing import Any

from devcluster.kinds.resource import Resource

__all__ = ["head", "is_stored_as", "rewritten", "storage_api_version", "to_request", "to_storage"]

Object = dict[str, Any]


def is_stored_as(resource: Resource) -> bool:
    """Whether the objects of this version are stored as they are."""
    return resource.version == resource.storage_version and resource.store_as is None


async def to_request(resource: Resource, obj: Object) -> Object:
    """A stored object in the version of `resource`; `obj` is the caller's to give away."""
    return (
        obj
        if obj.get("apiVersion") == resource.api_version
        else await _convert(resource, obj, resource.api_version)
    )


async def to_storage(resource: Resource, obj: Object) -> Object:
    """An object in the version that is stored; the same one when that is its own."""
    if is_stored_as(resource):
        return obj
    return await _convert(resource, obj, storage_api_version(resource))


def storage_api_version(resource: Resource) -> str:
    """What the stored objects say."""
    if resource.store_as is None:
        return resource.storage_api_version
    group = resource.store_as[0]
    return f"{group}/{resource.storage_version}" if group else resource.storage_version


def rewritten(data: bytes, resource: Resource) -> bytes | None:
    """A stored object's JSON in the version of `resource`, where the version's name is all that differs."""
    if is_stored_as(resource):
        return data
    if resource.convert is not None:
        return None
    stored = head(resource.kind, storage_api_version(resource))
    if not data.startswith(stored):
        return None
    return head(resource.kind, resource.api_version) + data[len(stored) :]


def head(kind: str, api_version: str) -> bytes:
    """How the JSON of a stored object begins."""
    return f'{{"kind":"{kind}","apiVersion":"{api_version}",'.encode()


async def _convert(resource: Resource, obj: Object, api_version: str) -> Object:
    if obj.get("apiVersion") == api_version:
        return obj
    if resource.convert is None:
        return {**obj, "apiVersion": api_version}
    metadata = obj["metadata"]
    (converted,) = await resource.convert([obj], api_version)
    converted.setdefault("metadata", metadata)
    head = {"kind": converted.pop("kind"), "apiVersion": converted.pop("apiVersion")}
    return {**head, **converted}
