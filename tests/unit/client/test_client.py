"""Requests and results of the client, and the responses that the caches receive."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from manager.api import ObjectKey, Unstructured
from manager.cache import Cache, own_writes_from_here
from manager.cache.record import Change
from manager.client import Client
from manager.kube.errors import Gone
from tests.support.scripted_wire import Reply, ScriptedWire
from tests.unit.cache.objects import Node, Pod, encoded, pod
from tests.unit.cache.server import expired, page

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("log_lines")]

PATH = "/api/v1/namespaces/ns/pods"
KEY = ObjectKey("ns", "a")


@pytest.fixture
async def wire(wire: ScriptedWire) -> ScriptedWire:
    kinds = [{"name": "pods", "kind": "Pod", "namespaced": True}, {"name": "nodes", "kind": "Node"}]
    wire.on("GET", "/api/v1", Reply.json({"resources": kinds}))
    return wire


async def patch(client: Client, read: Pod) -> Pod:
    read.spec["nodeName"] = "n2"
    return await client.patch(read, dry_run=True)


async def patch_status(client: Client, read: Pod) -> Pod:
    setattr(read, "status", {"phase": "Running"})  # noqa: B010 - the model has none
    return await client.status.patch(read, dry_run=True)


WRITES: dict[str, Callable[[Client, Pod], Awaitable[object]]] = {
    "create": lambda client, read: client.create(read, dry_run=True),
    "update": lambda client, read: client.update(read, dry_run=True),
    "patch": patch,
    "apply": lambda client, read: client.apply(read, dry_run=True),
    "delete": lambda client, read: client.delete(read, dry_run=True),
    "status.patch": patch_status,
    "status.update": lambda client, read: client.status.update(read, dry_run=True),
    "subresource": lambda client, read: client.subresource("x").patch(read, {}, dry_run=True),
    "delete_collection": lambda client, _: client.delete_collection(Pod, namespace="ns", dry_run=True),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_dry_run_write_sends_dry_run_option_and_field_manager_and_leaves_the_cache_unchanged(
    client: Client, cache: Cache, wire: ScriptedWire, write: Callable[[Client, Pod], Awaitable[object]]
):
    cache.informer(Pod)
    cache.observe_write(Pod, encoded(pod("a", 5)))
    for method in ("POST", "PUT", "PATCH"):
        wire.on(method, "*", Reply.json(pod("a", 9, spec={"nodeName": "n9"})))
    wire.on("DELETE", "*", Reply.json({"kind": "Status", "details": {"uid": "a-1"}}))
    await write(client, await client.get(Pod, KEY))
    [sent] = [sent for sent in wire.requests if sent.method != "GET"]
    assert sent.query.get("dryRun") == "All" or sent.json().get("dryRun") == ["All"]
    assert sent.query.get("fieldManager") == (None if sent.method == "DELETE" else "test")
    assert (await client.get(Pod, KEY)).metadata.resource_version == "5"


async def test_create_raises_when_a_namespaced_object_has_no_namespace(client: Client, wire: ScriptedWire):
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    with pytest.raises(ValueError, match=r"Pod.* is namespaced: 'a' needs a metadata\.namespace"):
        await client.create(Unstructured.parse(manifest))
    assert wire.sent("POST") == []


async def test_patch_of_partial_metadata_returns_metadata_and_updates_every_cache(
    client: Client, cache: Cache, wire: ScriptedWire
):
    for metadata_only in (False, True):
        cache.informer(Pod, metadata_only=metadata_only)
    cache.observe_write(Pod, encoded(pod("a", 5, labels={"x": "1"})))
    wire.on("PATCH", f"{PATH}/a", Reply.json(pod("a", 6, labels={"x": "2"})))
    partial = await client.metadata.find(Pod, KEY)
    assert partial is not None
    partial.metadata.labels["x"] = "2"
    patched = await client.patch(partial, kind=Pod)
    assert [sent.json() for sent in wire.sent("PATCH")] == [
        {"metadata": {"labels": {"x": "2"}, "uid": "a-1"}}
    ]
    assert type(patched) is type(partial)
    assert patched.metadata.labels == {"x": "2"}
    assert patched.model_extra == {}
    assert (await client.get(Pod, KEY)).metadata.labels == {"x": "2"}
    assert await client.metadata.find(Pod, KEY) == patched


class TestClientPages:
    async def read(self, client: Client) -> list[list[str]]:
        pages = client.uncached.pages(Pod, namespace="ns", labels={"app": "web"}, limit=2)
        return [[each.metadata.name for each in found] async for found in pages]

    async def test_each_page_request_sends_the_last_continue_token(self, client: Client, wire: ScriptedWire):
        wire.on("GET", PATH, page(9, ("a", 1), ("b", 2), resume="c1"), page(9, ("c", 3)))
        assert await self.read(client) == [["a", "b"], ["c"]]
        assert [sent.query for sent in wire.sent("GET", PATH)] == [
            {"limit": "2", "labelSelector": "app=web"},
            {"limit": "2", "labelSelector": "app=web", "continue": "c1"},
        ]

    async def test_pages_continue_with_the_new_continue_token_when_the_first_token_expired(
        self, client: Client, wire: ScriptedWire
    ):
        too_old = Reply.json(expired() | {"metadata": {"continue": "c2"}}, status=410)
        wire.on("GET", PATH, page(9, ("a", 1), resume="c1"), too_old, page(20, ("c", 3)))
        assert await self.read(client) == [["a"], ["c"]]
        assert [sent.query.get("continue") for sent in wire.sent("GET", PATH)] == [None, "c1", "c2"]

    @pytest.mark.parametrize("resume", ["", "c1"])
    async def test_pages_raise_the_gone_error_when_the_server_gives_no_new_continue_token(
        self, client: Client, wire: ScriptedWire, resume: str
    ):
        too_old = Reply.json(expired() | {"metadata": {"continue": resume}}, status=410)
        wire.on("GET", PATH, page(9, ("a", 1), resume="c1"), too_old)
        with pytest.raises(Gone):
            await self.read(client)

    async def test_pages_refuse_a_limit_below_one(self, client: Client):
        with pytest.raises(ValueError, match="limit must be at least 1, not 0"):
            await anext(client.uncached.pages(Pod, limit=0))


class TestClientDeleteCollection:
    async def test_delete_collection_sends_its_selectors_and_leaves_the_cache_unchanged(
        self, client: Client, cache: Cache, wire: ScriptedWire
    ):
        cache.informer(Pod)
        cache.observe_write(Pod, encoded(pod("a", 5)))
        wire.on("DELETE", PATH, page(9, ("a", 5)))
        await client.delete_collection(
            Pod, namespace="ns", label_selector="app=web", field_selector="x=y", propagation="Orphan"
        )
        [sent] = wire.sent("DELETE")
        assert sent.query == {"labelSelector": "app=web", "fieldSelector": "x=y"}
        assert sent.json() == {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"}
        # The object may have a finalizer.
        assert await client.find(Pod, KEY) is not None

    async def test_delete_collection_refuses_a_namespaced_kind_without_a_namespace(
        self, client: Client, wire: ScriptedWire
    ):
        with pytest.raises(ValueError, match=r"Pod\.v1 is namespaced: .* one namespace at a time"):
            await client.delete_collection(Pod)
        wire.on("DELETE", "/api/v1/nodes", Reply.status(200, ""))
        await client.delete_collection(Node)
        [sent] = wire.sent("DELETE")
        assert sent.json()["propagationPolicy"] == "Background"


async def test_client_update_omits_managed_fields_from_the_request(client: Client, wire: ScriptedWire):
    # The cache keeps only our own entries; an update without them leaves all unchanged.
    own = [{"manager": "test", "operation": "Apply", "fieldsV1": {}}]
    wire.on("PUT", "*", Reply.json(pod("a", 7)))
    held = Pod.decode(Reply.json(pod("a", 5, managedFields=own)).body)
    assert held.to_wire()["metadata"]["managedFields"] == own
    await client.update(held)
    (sent,) = wire.sent("PUT")
    assert "managedFields" not in sent.json()["metadata"]


class TestOwnWrites:
    """Record of our own writes; controllers use it to skip the watch events of these writes."""

    @pytest.fixture(autouse=True)
    async def answers(self, cache: Cache, wire: ScriptedWire) -> None:
        cache.informer(Pod)
        for method in ("POST", "PUT", "PATCH"):
            wire.on(method, "*", Reply.json(pod("a", 7)))

    @pytest.fixture
    def read(self) -> Pod:
        """Return a pod of version 5; the server answers each write with version 7."""
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
    async def test_own_writes_set_contains_an_update_or_patch_only_if_it_sends_a_resource_version(
        self, client: Client, read: Pod, write: str, change: dict[str, Any], version: str, before: int | None
    ):
        written = own_writes_from_here()
        read.metadata = read.metadata.model_copy(update={**change, "resource_version": version})
        await getattr(client, write)(read)
        assert written == (set() if before is None else {(read.metadata.uid, before, 7)})

    async def test_own_writes_omit_a_later_write_of_a_task_that_started_before_the_recording(
        self, client: Client, read: Pod
    ):
        other = asyncio.create_task(client.create(read))
        written = own_writes_from_here()
        await other
        assert written == set()
        async with asyncio.TaskGroup() as group:
            group.create_task(client.create(read))
        assert len(written) == 1

    async def test_own_writes_set_is_freed_when_its_task_ends_while_a_child_task_still_runs(
        self, client: Client, read: Pod
    ):
        async def collect() -> tuple[weakref.ref[set[Change]], asyncio.Task[Pod]]:
            return weakref.ref(own_writes_from_here()), asyncio.create_task(client.create(read))

        written, outliving = await asyncio.create_task(collect())
        assert written() is None
        await outliving
