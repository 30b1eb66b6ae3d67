"""Field management across the versions of a kind, where only a webhook converts between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import orjson

from devcluster.errors import StatusError
from devcluster.kinds.resource import Resource
from devcluster.patch.shape import Untypable
from devcluster.patch.write import Convert, in_versions
from devcluster.schema.node import Schema

__all__ = ["with_versions"]

Object = dict[str, Any]
Result = TypeVar("Result")


class _Unconverted(Exception):
    """An object is wanted in another version, and is not at hand in it."""

    def __init__(self, obj: Object, api_version: str, key: tuple[str, bytes]) -> None:
        super().__init__(api_version)
        self.obj = obj
        self.api_version = api_version
        self.key = key


async def with_versions(resource: Resource, step: Callable[[Convert], Result]) -> Result:
    """Return the result of `step`, which receives a function that converts objects to other versions.

    `step` is synchronous. When it needs a conversion that a webhook has to do, it is interrupted, and called
    again from its beginning once the converted object is there.
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
