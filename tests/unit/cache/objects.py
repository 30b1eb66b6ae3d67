"""Test objects: as JSON of the API server, and as records of the cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from pydantic import Field

from manager.api import Resource
from manager.cache.informer import Informer, ObjectFilter
from manager.cache.record import CacheEvent, Meta, Record, RecordDecoder
from manager.cache.reflector import Upstream
from manager.cache.spec import WatchSpec


class Pod(Resource, version="v1", plural="pods"):
    spec: dict[str, Any] = Field(default_factory=dict)


class Node(Resource, version="v1", plural="nodes", namespaced=False):
    pass


class Widget(Resource, group="example.com", version="v1", plural="widgets"):
    pass


def pod(
    name: str, version: int, *, namespace: str = "ns", uid: str | None = None, **more: Any
) -> dict[str, Any]:
    """Return a pod as JSON, by default with UID `NAME-1`; `more` sets `spec` and metadata fields."""
    spec = more.pop("spec", {"nodeName": "n1"})
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"{name}-1"}
    metadata |= {"resourceVersion": str(version), "generation": 1, **more}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}


def encoded(value: Mapping[str, Any]) -> bytes:
    return orjson.dumps(value)


_decoder = RecordDecoder(Pod.gvk, field_manager="operator-manager")


def taken(value: Mapping[str, Any]) -> tuple[Record, Meta]:
    """Return the cache record and the metadata of an object."""
    return _decoder(encoded(value))


def record(name: str, version: int, **more: Any) -> Record:
    return taken(pod(name, version, **more))[0]


def summaries(events: Iterable[CacheEvent]) -> list[str]:
    """Return each event in the form `ADDED ns/a@5`: its type, its key, and the version of its object."""
    return [f"{event.type.value} {event.key}@{event.record.version}" for event in events]


class EventLog:
    """Event handler that records its events."""

    def __init__(self) -> None:
        self.events: list[CacheEvent] = []

    def __call__(self, event: CacheEvent) -> None:
        self.events.append(event)

    def take(self) -> list[str]:
        """Return the `summaries` of the events since the last call."""
        taken = summaries(self.events)
        self.events.clear()
        return taken


def pod_informer(upstream: Upstream, *, object_filter: ObjectFilter | None = None, **spec: Any) -> Informer:
    """Return an informer of pods; `spec` sets fields of its WatchSpec."""
    decoder = RecordDecoder(Pod.gvk, field_manager="m", metadata_only=spec.get("metadata_only", False))
    watch = WatchSpec(gvk=Pod.gvk, plural=Pod.plural, **spec)
    return Informer(watch, decoder, upstream, object_filter=object_filter)


@asynccontextmanager
async def running(what: Any) -> AsyncIterator[None]:
    """Await `what.run()` in a task until the end of the block; raise its error."""
    task = asyncio.create_task(what.run())
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def moments() -> None:
    """Sleep for 10 ms: sent data arrives, but no timer of the cache expires."""
    await asyncio.sleep(0.01)
