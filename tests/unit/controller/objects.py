"""Objects and events about them, as the cache has them."""

from __future__ import annotations

from typing import Any, Self

import orjson

from manager.api import ObjectKey, Resource
from manager.cache import CacheEvent, Record
from tests.unit.cache.objects import Pod


class Foo(Resource, group="tutorial.my.domain", version="v1", plural="foos"):
    pass


class Cluster(Resource, group="example.com", version="v1", plural="clusters", namespaced=False):
    pass


def owner(
    name: str = "foo-1", *, kind: str = "Foo", group: str = "tutorial.my.domain/", controller: bool = True
) -> dict[str, Any]:
    return {
        "apiVersion": f"{group}v1",
        "kind": kind,
        "name": name,
        "uid": f"uid-of-{name}",
        "controller": controller,
    }


def raw(name: str = "a", *, version: int = 1, kind: type[Resource] = Pod, **metadata: Any) -> bytes:
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "generation": 1,
        **metadata,
    }
    return orjson.dumps({"apiVersion": kind.gvk.api_version, "kind": kind.gvk.kind, "metadata": metadata})


def record(name: str = "a", *, version: int = 1, **metadata: Any) -> Record:
    data = raw(name, version=version, **metadata)
    seen = orjson.loads(data)["metadata"]
    return Record(
        key=ObjectKey(seen["namespace"], name),
        raw=data,
        uid=seen["uid"],
        version=version,
        generation=seen["generation"],
        deleting="deletionTimestamp" in seen,
    )


class Change:
    """A change of an object with some metadata; says what of it is different afterwards."""

    def __init__(self, **before: Any) -> None:
        self._before = before

    @classmethod
    def of(cls, **before: Any) -> Self:
        return cls(**before)

    def to(self, **after: Any) -> CacheEvent:
        return CacheEvent(record(**self._before), record(version=2, **{**self._before, **after}))


def added(**metadata: Any) -> CacheEvent:
    return CacheEvent(None, record(**metadata))


def removed(**metadata: Any) -> CacheEvent:
    return CacheEvent(record(**metadata), None)


def changed(**after: Any) -> CacheEvent:
    return Change().to(**after)
