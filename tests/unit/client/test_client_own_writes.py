"""Writes that are known to change only what the writer has seen."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

import pytest

from manager.api import ObjectKey
from manager.cache import Cache, own_writes_from_here
from manager.cache.record import Change
from manager.client import Client
from tests.support.scripted_wire import Reply, ScriptedWire
from tests.unit.cache.objects import Pod, pod
from tests.unit.cache.server import DISCOVERY

pytestmark = pytest.mark.virtual_time
PATH = "/api/v1/namespaces/ns/pods"


@pytest.fixture
async def wire(wire: ScriptedWire) -> ScriptedWire:
    wire.on("GET", "/api/v1", DISCOVERY)
    for method in ("POST", "PUT", "PATCH"):
        wire.on(method, "*", Reply.json(pod("a", 7)))
    return wire


@pytest.fixture(autouse=True)
async def followed(cache: Cache) -> None:
    cache.informer(Pod)


@pytest.fixture
def read() -> Pod:
    """Return a pod as read at version 5; writes lead to version 7."""
    return Pod.decode(Reply.json(pod("a", 5)).body)


@pytest.mark.parametrize(
    ("write", "change", "version", "before"),
    [
        ("create", {}, "5", 0),
        ("update", {}, "5", 5),
        ("patch", {"finalizers": ["example.com/x"]}, "5", 5),
        ("patch", {"labels": {"x": "y"}}, "5", None),
        ("update", {}, "", None),
        ("update", {}, "0", None),  # the server treats it as none
    ],
)
async def test_own_writes_record_the_version_that_a_write_demands(
    client: Client, read: Pod, write: str, change: dict[str, Any], version: str, before: int | None
):
    written = own_writes_from_here()
    read.metadata = read.metadata.model_copy(update={**change, "resource_version": version})
    await getattr(client, write)(read)
    assert written == (set() if before is None else {(read.metadata.uid, before, 7)})


async def test_update_sends_no_managed_fields(client: Client, wire: ScriptedWire):
    # The cache keeps only our own entries; an update without them leaves all unchanged.
    own = [{"manager": "test", "operation": "Apply", "fieldsV1": {}}]
    held = Pod.decode(Reply.json(pod("a", 5, managedFields=own)).body)
    assert held.to_wire()["metadata"]["managedFields"] == own
    await client.update(held)
    (sent,) = wire.sent("PUT")
    assert "managedFields" not in sent.json()["metadata"]


async def test_own_writes_include_those_of_child_tasks(client: Client, read: Pod):
    other = asyncio.create_task(client.create(read))
    written = own_writes_from_here()
    await other
    assert written == set()
    async with asyncio.TaskGroup() as group:
        group.create_task(client.create(read))
    assert len(written) == 1


async def test_own_writes_are_freed_when_a_child_task_outlives_the_collector(client: Client, read: Pod):
    async def collect() -> tuple[weakref.ref[set[Change]], asyncio.Task[Pod]]:
        return weakref.ref(own_writes_from_here()), asyncio.create_task(client.create(read))

    written, outliving = await asyncio.create_task(collect())
    assert written() is None
    await outliving


async def test_own_writes_are_separate_for_each_task(client: Client, read: Pod):
    async def collect(*, write: bool) -> int:
        written = own_writes_from_here()
        await asyncio.sleep(1)
        if write:
            await client.create(read)
        await asyncio.sleep(1)
        return len(written)

    assert await asyncio.gather(collect(write=True), collect(write=False)) == [1, 0]


async def test_own_writes_contain_no_reads(client: Client, wire: ScriptedWire, read: Pod):
    wire.on("GET", f"{PATH}/a", Reply.json(pod("a", 5)))
    written = own_writes_from_here()
    await client.uncached.get(Pod, ObjectKey("ns", "a"))
    assert written == set()
