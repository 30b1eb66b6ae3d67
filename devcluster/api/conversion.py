"""Conversion of objects with their managedFields between the version of a request and the storage version."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import orjson

from devcluster.errors import StatusError
from devcluster.kinds.resource import Resource
from devcluster.patch.shape import Untypable
from devcluster.patch.write import Convert, in_versions
from devcluster.schema.node import Schema
from devcluster.storage.records import Stored

Object = dict[str, Any]

_BATCH: Final = 500
"""The maximum number of objects in one review. The real server sends each object in a review of its own, but
only once; a list here may convert thousands of objects, for which separate reviews would take minutes."""
_BATCH_BYTES: Final = 4 << 20


def is_stored_as(resource: Resource) -> bool:
    """Return whether the store keeps objects of this version without conversion."""
    return resource.version == resource.storage_version and resource.store_as is None


def decoded(resource: Resource, stored: Stored) -> Object:
    """Decode a stored object in its stored version; prune and default it if its CRD has changed since."""
    obj = stored.decode()
    versions = resource.custom_versions
    if versions is not None and versions.is_stale(stored.version):
        versions.tidy(obj)
    return obj


async def read(resource: Resource, stored: Stored, *, anew: bool = False) -> Object:
    """Return a stored object in the version of `resource`, as a copy that the caller may modify.

    Args:
        resource: the kind in the target version.
        stored: the object.
        anew: convert the object even if the result is cached; the real server does this for a get.

    Raises:
        StatusError: 500, the conversion webhook failed.
    """
    if anew:
        (converted,) = await _convert_all(resource, [stored])
        return converted
    (data,) = await data_of(resource, [stored])
    obj: Object = orjson.loads(data)
    return obj


async def data_of(resource: Resource, items: Sequence[Stored]) -> list[bytes]:
    """Return the JSON of each object in the version of `resource`; objects are converted in batches.

    Raises:
        StatusError: 500, the conversion webhook failed.
    """
    found = {each: data for each in items if (data := known(resource, each)) is not None}
    while missing := list(dict.fromkeys(each for each in items if each not in found)):
        batch = _first_batch(missing)
        await resource.converted.others(batch)
        batch = [each for each in batch if resource.converted.get(each) is None]
        if batch:
            with resource.converted.converting(batch):
                for each, obj in zip(batch, await _convert_all(resource, batch), strict=True):
                    data = found[each] = orjson.dumps(obj)
                    if resource.custom:
                        resource.converted.put(each, data)
        found |= {each: data for each in missing if (data := resource.converted.get(each)) is not None}
    return [found[each] for each in items]


def known(resource: Resource, stored: Stored) -> bytes | None:
    """Return a stored object's JSON in the version of `resource`, or None if it is not converted yet."""
    data = rewritten(resource, stored)
    return resource.converted.get(stored) if data is None else data


async def to_request(resource: Resource, obj: Object) -> Object:
    """Convert a decoded object to the version of `resource`; may modify `obj`."""
    return (
        obj
        if obj.get("apiVersion") == resource.api_version
        else await _convert(resource, obj, resource.api_version)
    )


async def to_storage(resource: Resource, obj: Object) -> Object:
    """Convert an object to its storage version; returns `obj` itself if it already has that version."""
    if is_stored_as(resource):
        return obj
    converted = await _convert(resource, obj, storage_api_version(resource))
    if resource.custom_versions is not None:  # so that later reads need no conversion
        resource.custom_versions.tidy(converted)
    return converted


def storage_api_version(resource: Resource) -> str:
    """Return the apiVersion that stored objects have."""
    if resource.store_as is None:
        return resource.storage_api_version
    group = resource.store_as[0]
    return f"{group}/{resource.storage_version}" if group else resource.storage_version


def rewritten(resource: Resource, stored: Stored) -> bytes | None:
    """Return the stored JSON with only the apiVersion replaced, or None if that is no valid conversion."""
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
    """Return the first bytes of a stored object's JSON: its kind and apiVersion."""
    return f'{{"kind":"{kind}","apiVersion":"{api_version}",'.encode()


def _first_batch(items: Sequence[Stored]) -> Sequence[Stored]:
    """Return the first items, as many as fit into one conversion review."""
    size = 0
    for index, each in enumerate(items[:_BATCH]):
        size += len(each.data)
        if size > _BATCH_BYTES and index:
            return items[:index]
    return items[:_BATCH]


async def _convert_all(resource: Resource, items: Sequence[Stored]) -> list[Object]:
    """Convert stored objects to the version of `resource`, with at most one webhook call."""
    objects = [decoded(resource, each) for each in items]
    wanted = resource.api_version
    if resource.convert is None:
        return [await _convert(resource, each, wanted) for each in objects]
    _check_versions(resource, objects)
    due = [index for index, each in enumerate(objects) if each.get("apiVersion") != wanted]
    if due:
        converted = await resource.convert([objects[index] for index in due], wanted)
        for index, obj in zip(due, converted, strict=True):
            objects[index] = _tidied(resource, obj)
    return objects


def _check_versions(resource: Resource, objects: Sequence[Object]) -> None:
    """Refuse an object whose stored version no longer exists in its CRD."""
    versions = resource.custom_versions
    for each in objects:
        if versions is not None and not versions.has(each.get("apiVersion", "")):
            text = f"request to convert CR from an invalid group/version: {each.get('apiVersion', '')}"
            raise StatusError(500, "", text)


async def _convert(resource: Resource, obj: Object, api_version: str) -> Object:
    if obj.get("apiVersion") == api_version:
        return obj
    _check_versions(resource, [obj])
    if resource.convert is None:
        converted = {**obj, "apiVersion": api_version}
        if resource.custom_versions is not None:
            converted = copy.deepcopy(converted)  # pruning below may modify it
    else:
        metadata = obj["metadata"]
        (converted,) = await resource.convert([obj], api_version)
        converted.setdefault("metadata", metadata)
    return _tidied(resource, converted)


def _tidied(resource: Resource, converted: Object) -> Object:
    """Prune a converted object by its schema, and put kind and apiVersion first."""
    obj = {"kind": converted.pop("kind"), "apiVersion": converted.pop("apiVersion"), **converted}
    if resource.custom_versions is not None:
        resource.custom_versions.prune(obj)
    return obj


Result = TypeVar("Result")


class _Unconverted(Exception):
    """Exception for an object that `with_versions` has to convert first."""

    def __init__(self, obj: Object, api_version: str, key: tuple[str, bytes]) -> None:
        super().__init__(api_version)
        self.obj = obj
        self.api_version = api_version
        self.key = key


async def with_versions(resource: Resource, step: Callable[[Convert], Result]) -> Result:
    """Return the result of `step`, which receives a function that converts objects to other versions.

    `step` is synchronous. If a conversion needs a webhook, `step` is interrupted, the webhook is called, and
    `step` starts again from its beginning.
    """
    convert_all, versions = resource.convert, resource.custom_versions
    if convert_all is None:
        return step(in_versions(resource.schemas))
    known: dict[tuple[str, bytes], Object | None] = {}
    failure: StatusError | None = None

    def convert(obj: Object, api_version: str) -> tuple[Object, Schema] | None:
        schema = resource.schemas.get(api_version)
        if schema is None or obj.get("apiVersion") == api_version:
            return None if schema is None else (obj, schema)
        key = (api_version, orjson.dumps(obj))
        if key not in known:
            raise _Unconverted(obj, api_version, key)
        converted = known[key]
        if converted is None:
            raise Untypable(f"no conversion to {api_version}")
        return converted, schema

    while True:
        try:
            return step(convert)
        except _Unconverted as wanted:
            try:
                (converted,) = await convert_all([wanted.obj], wanted.api_version)
            except StatusError as error:
                known[wanted.key] = None
                failure = failure or error
                continue
            if versions is not None:
                versions.prune(converted)
            known[wanted.key] = converted
        except (Untypable, StatusError):
            if failure is not None:  # the webhook's failure is the real error
                raise failure from None
            raise
