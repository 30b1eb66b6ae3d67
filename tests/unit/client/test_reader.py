"""Reads of objects, lists and watched lists (`client.watch`), from the cache and from the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from manager.api import ObjectKey, PartialObjectMetadata
from manager.cache.record import MOST_KEPT
from manager.client import Client, NotCached, Undecodable
from manager.client.reader import ObjectList
from manager.kube.errors import Forbidden, NoMatch
from tests.support.effort import Effort, turns_of_others
from tests.support.scripted_wire import Reply, ScriptedWire
from tests.unit.cache.objects import Node, Pod, encoded, pod
from tests.unit.cache.server import DISCOVERY, Listed, PodServer, longer_than_any_object, page
from tests.unit.conftest import LogLines
from tests.unit.connected import connected

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("log_lines")]


class World:
    """A client with its cache and the scripted connection to its server."""

    def __init__(self, *namespaces: str, cached: bool = True) -> None:
        self.wire = ScriptedWire()
        self.wire.on("GET", "/api/v1", DISCOVERY)
        self.client, _, self.cache, self.metrics = connected(self.wire, *namespaces)
        for metadata_only in (False, True) if cached else ():
            self.cache.informer(Pod, metadata_only=metadata_only)

    def holds(self, name: str, version: int, **more: object) -> None:
        self.cache.observe_write(Pod, encoded(pod(name, version, **more)))

    def index_all(self) -> None:
        for metadata_only in (False, True):
            self.cache.informer(Pod, metadata_only=metadata_only).add_index("all", lambda *_: ("x",))

    @property
    def left_out(self) -> float | None:
        labels = {"kind": "pods", "part": "decode"}
        return self.metrics.registry.get_sample_value("operator_manager_cache_failures_total", labels)


@pytest.fixture
async def world() -> World:
    world = World()
    world.holds("a", 1)
    world.holds("odd", 2, spec="none")
    world.holds("z", 3)
    return world


def names(pods: list[Pod]) -> list[str]:
    return [each.metadata.name for each in pods]


async def test_uncached_list_accepts_a_response_above_the_size_limit_of_one_object():
    world = World(cached=False)
    world.wire.on("GET", "/api/v1/pods", longer_than_any_object(page(10, ("a", 1))))
    assert names(await world.client.uncached.list(Pod)) == ["a"]


@pytest.mark.parametrize("depth", [250, 900, 5_000])
async def test_client_reads_and_writes_a_deeply_nested_object(depth: int):
    world = World(cached=False)
    answer = page(10, ("a", 1), ("deep", 2))
    nested = b'"managedFields":[{"fieldsV1":%b}],"name":"deep"' % (b'{"f:a":' * depth + b"1" + b"}" * depth)
    body = answer.body.replace(b'"name":"deep"', nested)
    world.wire.on("GET", "/api/v1/pods", replace(answer, body=body))
    _, deep = await world.client.uncached.list(Pod)
    changed = Reply.json(pod("deep", 3))
    world.wire.on(
        "PATCH",
        "/api/v1/namespaces/ns/pods/deep",
        replace(changed, body=changed.body.replace(b'"name":"deep"', nested)),
    )
    deep.metadata.labels = {"a": "b"}
    assert (await world.client.patch(deep)).metadata.resource_version == "3"


async def test_object_list_records_50000_undecodable_objects_in_little_time(monkeypatch: pytest.MonkeyPatch):
    error = Undecodable.__new__(Undecodable)

    def decode(*_: object) -> Pod:
        raise error

    monkeypatch.setattr("manager.client.reader.decode_at_once", decode)
    found = ObjectList[Pod]()
    with Effort() as spent:
        for _ in range(50_000):
            found.decode(b"", Pod, ObjectKey("ns", "odd"))
    assert len(found.undecodable) == 50_000
    assert spent.units < 50


class TestReaderUndecodable:
    async def test_list_omits_an_undecodable_object_and_returns_its_error(self, world: World):
        pods = await world.client.list(Pod)
        assert names(pods) == ["a", "z"]
        [error] = pods.undecodable
        assert (error.gvk, error.key, str(error)) == (
            Pod.gvk,
            ("ns", "odd"),
            "Pod ns/odd: spec: Input should be an object",
        )

    async def test_object_list_complete_method_raises_when_an_object_is_undecodable(self, world: World):
        with pytest.raises(Undecodable, match="ns/odd"):
            (await world.client.list(Pod)).complete()
        pods = await world.client.list(Pod, labels="!odd,app!=x")
        assert names(pods) == ["a", "z"]
        world.holds("odd", 4)
        assert names((await world.client.list(Pod)).complete()) == ["a", "odd", "z"]

    async def test_undecodable_object_is_counted_and_logged_once_for_each_version(
        self, world: World, log_lines: LogLines
    ):
        assert world.left_out == 0
        for _ in range(3):
            await world.client.list(Pod)
        world.holds("odd", 4, spec="none")
        await world.client.list(Pod)
        assert world.left_out == 2
        assert [(line["event"], line["object"]) for line in log_lines] == [
            ("cannot decode object: lists omit it", "ns/odd")
        ] * 2

    async def test_get_and_find_raise_for_an_undecodable_object(self, world: World):
        for read in (world.client.get, world.client.find):
            with pytest.raises(Undecodable):
                await read(Pod, ObjectKey("ns", "odd"))

    async def test_uncached_get_raises_and_uncached_list_omits_an_undecodable_object(self, world: World):
        odd = pod("odd", 2, spec="none")
        world.wire.on("GET", "/api/v1/namespaces/ns/pods/odd", Reply.json(odd))
        items = {"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [odd, pod("z", 3)]}
        world.wire.on("GET", "/api/v1/pods*", Reply.json(items))
        with pytest.raises(Undecodable, match="ns/odd: spec"):
            await world.client.uncached.get(Pod, ObjectKey("ns", "odd"))
        pods = await world.client.uncached.list(Pod)
        assert names(pods) == ["z"]
        assert [error.key for error in pods.undecodable] == [("ns", "odd")]


class TestReaderNamespaces:
    @pytest.mark.parametrize("namespace", ["", None])
    async def test_list_reads_all_watched_namespaces_when_no_namespace_is_given(self, namespace: str | None):
        for watched in ((), ("n1", "n2")):
            world = World(*watched)
            for name in ("n1", "n2"):
                world.holds("a", 1, namespace=name, uid=name, labels={"app": "web"})
            everywhere = [("n1", "a"), ("n2", "a")]
            world.index_all()
            for selection in ({}, {"labels": {"app": "web"}}, {"index": ("all", "x")}):
                read = {"namespace": namespace, **selection}
                assert [each.key for each in await world.client.list(Pod, **read)] == everywhere
                assert [each.key for each in await world.client.metadata.list(Pod, **read)] == everywhere
                assert await world.client.metadata.keys(Pod, **read) == everywhere

    async def test_reader_raises_not_cached_error_for_an_unwatched_namespace(self):
        world = World("n1", "n2")
        client, key = world.client, ObjectKey("n3", "a")
        for reader in (client, client.metadata):
            with pytest.raises(NotCached, match=r"namespace n3 .* n1, n2"):
                await reader.find(Pod, key)
            with pytest.raises(NotCached, match="namespace n3"):
                await reader.list(Pod, namespace="n3")
        with pytest.raises(NotCached, match="namespace n3"):
            await client.get(Pod, key)
        with pytest.raises(NotCached, match="namespace n3"):
            await client.metadata.keys(Pod, namespace="n3")
        assert await client.find(Pod, ObjectKey("n1", "a")) is None

    async def test_reader_accepts_cluster_scoped_kinds_when_cached_namespaces_are_limited(self):
        world = World("n1")
        world.cache.informer(Node)
        assert await world.client.find(Node, ObjectKey("", "a")) is None
        assert await world.client.list(Node) == []

    async def test_apply_reads_the_object_from_the_server_in_an_unwatched_namespace(self):
        world = World("n1")
        held = {"kind": "Pod", "apiVersion": "v1", **pod("a", 1, namespace="n3")}
        world.wire.on("GET", "/api/v1/namespaces/n3/pods/a", Reply.json(held))
        world.wire.on("PATCH", "/api/v1/namespaces/n3/pods/a", Reply.json(held))
        await world.client.apply(Pod.model_validate({"metadata": {"name": "a", "namespace": "n3"}}))
        assert [sent.method for sent in world.wire.requests if "/pods/" in sent.path] == ["GET", "PATCH"]


class TestReaderSelection:
    @pytest.fixture
    async def world(self) -> World:
        world = World(cached=False)
        for metadata_only in (False, True):
            world.cache.informer(Pod, metadata_only=metadata_only, label_selector="app=web")
        world.holds("a", 1, labels={"app": "web"})
        world.holds("b", 2)
        return world

    async def test_client_with_a_label_selector_returns_only_matching_objects(self, world: World):
        web = world.client.selecting(label_selector="app = web")
        assert names(await web.list(Pod)) == ["a"]
        assert (await web.get(Pod, ObjectKey("ns", "a"))).metadata.name == "a"
        assert await web.find(Pod, ObjectKey("ns", "b")) is None
        metadata = world.client.metadata.selecting(label_selector="app=web")
        assert await metadata.keys(Pod) == [("ns", "a")]
        assert await metadata.find(Pod, ObjectKey("ns", "b")) is None
        assert [each.key for each in await metadata.list(Pod)] == [("ns", "a")]

    async def test_reader_raises_not_cached_error_when_the_kind_is_cached_only_with_a_label_selector(
        self, world: World
    ):
        ways = r"Pod is not cached: .* with the same selection, "
        for key in (ObjectKey("ns", "a"), ObjectKey("ns", "b")):
            with pytest.raises(NotCached, match=ways):
                await world.client.find(Pod, key)
        with pytest.raises(NotCached, match=ways):
            await world.client.list(Pod, labels="app=web")
        with pytest.raises(NotCached, match=r"metadata of Pod is not cached"):
            await world.client.metadata.keys(Pod)

    async def test_client_with_a_label_selector_raises_not_cached_error_when_the_selector_is_not_declared(
        self, world: World
    ):
        world.cache.informer(Pod)
        with pytest.raises(NotCached, match=r"Pod with label_selector='app=db' is not cached"):
            await world.client.selecting(label_selector="app=db").list(Pod)

    async def test_apply_sends_no_get_when_the_object_is_cached_with_a_label_selector(self, world: World):
        for name in ("a", "b"):
            held = pod(name, 3, labels={"app": "web"} if name == "a" else {})
            world.wire.on("GET", f"/api/v1/namespaces/ns/pods/{name}", Reply.json(held))
            world.wire.on("PATCH", f"/api/v1/namespaces/ns/pods/{name}", Reply.json(held))
            await world.client.apply(Pod.model_validate({"metadata": {"name": name, "namespace": "ns"}}))
        assert [sent.path for sent in world.wire.sent("GET") if "/pods/" in sent.path] == [
            "/api/v1/namespaces/ns/pods/b"
        ]


async def test_client_refuses_to_write_partial_metadata_without_an_explicit_kind(world: World):
    # A write would lose the fields that partial metadata omits.
    world.wire.on("GET", "/apis/meta.k8s.io/v1", Reply.status(404, "NotFound"))
    partial = await world.client.metadata.find(Pod, ObjectKey("ns", "a"))
    assert isinstance(partial, PartialObjectMetadata)
    partial.metadata.labels["x"] = "y"
    for write in (world.client.update, world.client.patch, world.client.apply, world.client.create):
        with pytest.raises(NoMatch):
            await write(partial)
    assert {request.method for request in world.wire.requests} == {"GET"}


@pytest.mark.parametrize("field", ["finalizers", "owner_references"])
async def test_patch_refuses_to_change_finalizers_or_owner_references_that_the_cache_has_truncated(
    world: World, field: str
):
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a"}
    owners = [{**owner, "uid": f"u{number}"} for number in range(MOST_KEPT + 1)]
    finalizers = [f"example.com/a{number}" for number in range(MOST_KEPT + 1)]
    world.holds("full", 9, finalizers=finalizers, ownerReferences=owners)
    world.wire.on("PATCH", "/api/v1/namespaces/ns/pods/full", Reply.json(pod("full", 10)))
    partial = await world.client.metadata.find(Pod, ObjectKey("ns", "full"))
    assert partial is not None
    partial.metadata.labels["x"] = "y"
    await world.client.patch(partial, kind=Pod)
    del getattr(partial.metadata, field)[0]
    with pytest.raises(ValueError, match=rf"Pod ns/full has more .* than .* {MOST_KEPT}.*uncached"):
        await world.client.patch(partial, kind=Pod)
    assert len(world.wire.sent("PATCH", "/api/v1/namespaces/ns/pods/full")) == 1


class TestReaderLargeLists:
    """Reads of large or many objects; the reads must not block other tasks."""

    COUNT = 20
    LARGE: ClassVar = {"annotations": {f"a{number}": "x" * 4000 for number in range(20)}}
    OWNER = Pod.model_validate(pod("owner", 1, uid="owner"))

    @pytest.fixture
    async def large(self) -> World:
        world = World()
        owners = [{"apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": "owner"}]
        objects = [
            pod(f"p{number}", number, labels={"app": "web"}, ownerReferences=owners, **self.LARGE)
            for number in range(1, self.COUNT + 1)
        ]
        world.index_all()
        for each in objects:
            world.cache.observe_write(Pod, encoded(each))
        for path, answer in (
            ("", {"metadata": {"resourceVersion": "30"}, "items": objects}),
            ("/p1", objects[0]),
        ):
            world.wire.on("GET", f"/api/v1/namespaces/ns/pods{path}", Reply.json(answer))
        await world.client.uncached.probe(Pod, namespace="ns")
        return world

    @pytest.mark.parametrize(
        "read",
        [
            pytest.param(lambda client: client.list(Pod), id="all"),
            pytest.param(lambda client: client.list(Pod, labels={"app": "web"}), id="by label"),
            pytest.param(lambda client: client.list(Pod, labels="app in (web, x)"), id="by selector"),
            pytest.param(lambda client: client.list(Pod, owner=TestReaderLargeLists.OWNER), id="by owner"),
            pytest.param(lambda client: client.list(Pod, index=("all", "x")), id="by index"),
            pytest.param(lambda client: client.metadata.list(Pod), id="metadata"),
            pytest.param(lambda client: client.uncached.list(Pod, namespace="ns"), id="from the server"),
        ],
    )
    async def test_list_yields_to_the_loop_after_each_large_object(
        self, large: World, read: Callable[[Client], Awaitable[list[object]]]
    ):
        alone = await turns_of_others(asyncio.sleep(0))
        assert await turns_of_others(read(large.client)) >= alone + self.COUNT
        assert len(await read(large.client)) == self.COUNT

    @pytest.mark.parametrize(
        "read",
        [
            pytest.param(lambda client: client.metadata.keys(Pod, labels={"app": "none"}), id="by label"),
            pytest.param(lambda client: client.metadata.keys(Pod, labels="app=none"), id="by selector"),
            pytest.param(
                lambda client: client.list(Pod, owner=TestReaderLargeLists.OWNER, labels={"app": "none"}),
                id="by owner",
            ),
        ],
    )
    async def test_reader_builds_an_index_once_and_yields_to_the_loop_during_the_build(
        self, large: World, read: Callable[[Client], Awaitable[list[object]]]
    ):
        alone = await turns_of_others(asyncio.sleep(0))
        assert await turns_of_others(read(large.client)) >= alone + self.COUNT
        assert await turns_of_others(read(large.client)) <= alone + 1

    async def test_list_after_an_index_build_shows_objects_changed_during_the_build(self, large: World):
        building = asyncio.create_task(large.client.list(Pod, labels={"app": "web"}))
        other = asyncio.create_task(large.client.list(Pod, labels={"app": "web"}))
        at_once = asyncio.create_task(large.client.list(Pod, labels={"app": "other"}))
        for _ in range(5):
            await asyncio.sleep(0)
        for name, version, app in (
            ("p1", 31, "other"),
            ("p19", 32, "other"),
            ("p20", 33, "web"),
            ("new", 34, "web"),
        ):
            large.cache.observe_write(Pod, encoded(pod(name, version, labels={"app": app}, **self.LARGE)))
        large.cache.observe_delete(Pod, ObjectKey("ns", "p2"), "uid-p2", encoded(pod("p2", 35)))
        found = {each.metadata.name for each in await building}
        assert found == {each.metadata.name for each in await other}
        await at_once
        again = [each.name for each in await large.client.metadata.keys(Pod, labels={"app": "web"})]
        assert "new" in again
        assert {"p1", "p19"} & set(again) == set()
        assert [each.name for each in await large.client.metadata.keys(Pod, labels={"app": "other"})] == [
            "p1",
            "p19",
        ]
        assert found == set(again)

    async def test_list_yields_to_the_loop_between_many_small_objects(self):
        world = World()
        for number in range(1000):
            world.holds(f"p{number}", number + 1, labels={"app": "x" * 60})
        assert await turns_of_others(world.client.list(Pod)) > 2

    @pytest.mark.parametrize(
        "read",
        [
            pytest.param(lambda client: client.find(Pod, ObjectKey("ns", "p1")), id="cached"),
            pytest.param(lambda client: client.metadata.find(Pod, ObjectKey("ns", "p1")), id="metadata"),
            pytest.param(lambda client: client.uncached.get(Pod, ObjectKey("ns", "p1")), id="server"),
            pytest.param(
                lambda client: client.apply(
                    Pod.model_validate({"metadata": {"name": "p1", "namespace": "ns"}}), force=False
                ),
                id="apply",
            ),
        ],
    )
    async def test_each_concurrent_read_decodes_a_large_object_in_a_separate_event_loop_iteration(
        self, large: World, read: Callable[[Client], Awaitable[object]]
    ):
        async def at_once(number: int) -> None:
            await asyncio.gather(*(read(large.client) for _ in range(number)))

        large.wire.on("PATCH", "/api/v1/namespaces/ns/pods/p1", Reply.json(pod("p1", 50, **self.LARGE)))
        await read(large.client)  # later applies send no patch
        few, many = await turns_of_others(at_once(1)), await turns_of_others(at_once(21))
        assert many >= few + 20

    async def test_find_of_a_small_object_does_not_wait_for_a_large_list(self, large: World):
        large.holds("small", 40)
        listed = asyncio.create_task(large.client.list(Pod))
        await asyncio.sleep(0)
        assert await turns_of_others(large.client.find(Pod, ObjectKey("ns", "small"))) == 0
        assert not listed.done()
        await listed


class TestReaderOwnedBy:
    """Reads of a kind with `owned_by`: children are cached whole, foreign objects only as metadata."""

    @pytest.fixture
    async def world(self) -> World:
        world = World(cached=False)
        world.cache.informer(Pod, owned_by=Node)
        self.node = Node.decode(encoded({"metadata": {"name": "n", "uid": "n"}}))
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n", "controller": True}
        world.holds("ours", 1, labels={"app": "a"}, ownerReferences=[owner])
        return world

    def others(self, world: World, *numbers: int, label: str = "a") -> list[dict[str, Any]]:
        """Return foreign pods with these numbers, after the cache has their metadata."""
        found = [pod(f"p{each:02}", 10 + each, labels={"app": label}) for each in numbers]
        for each in found:
            world.cache.observe_write(Pod, encoded(each))
        return found

    async def test_get_reads_a_foreign_object_from_the_server_and_a_child_from_the_cache(self, world: World):
        [theirs] = self.others(world, 0)
        key, path = ObjectKey("ns", "p00"), "/api/v1/namespaces/ns/pods/p00"
        world.wire.on("GET", path, Reply.json(theirs), Reply.status(404, "NotFound"))
        assert (await world.client.get(Pod, key)).spec == {"nodeName": "n1"}
        assert await world.client.find(Pod, key) is None, "the object was deleted meanwhile"
        assert (await world.client.get(Pod, ObjectKey("ns", "ours"))).spec == {"nodeName": "n1"}
        assert await world.client.find(Pod, ObjectKey("ns", "none")) is None
        assert [sent.path for sent in world.wire.sent("GET")[1:]] == [path, path]

    async def test_list_by_owner_returns_children_from_the_cache_without_a_request(self, world: World):
        self.others(world, *range(30))
        assert names(await world.client.list(Pod, owner=self.node)) == ["ours"]
        assert names(await world.client.list(Pod, owner=self.node, labels="app!=b")) == ["ours"]
        assert names(await world.client.list(Pod, owner=self.node, labels="app=a,app notin (a)")) == []
        assert world.wire.sent("GET") == []

    async def test_list_without_owner_reads_all_foreign_objects_with_a_single_request(self, world: World):
        theirs = self.others(world, *range(3))
        self.others(world, 4)  # deleted before the request
        new = pod("new", 90, labels={"app": "a"})
        items = [{name: value for name, value in each.items() if name != "kind"} for each in (new, *theirs)]
        world.wire.on("GET", "/api/v1/namespaces/ns/pods*", Reply.json({"metadata": {}, "items": items}))
        pods = await world.client.list(Pod, namespace="ns", labels="app in (a, b)")
        assert names(pods) == ["ours", *(each["metadata"]["name"] for each in theirs)]
        assert {str(each.spec) for each in pods} == {"{'nodeName': 'n1'}"}
        [sent] = world.wire.sent("GET", "/api/v1/namespaces/ns/pods")
        assert sent.query["labelSelector"] == "app in (a, b)"

    @pytest.mark.parametrize("labels", [None, {}, {"app": "a"}, {"app": "a", "x": ""}, ""])
    async def test_list_without_owner_sends_its_label_selector_in_the_request_for_foreign_objects(
        self, world: World, labels: dict[str, str] | str | None
    ):
        for number in range(3):
            world.holds(f"p{number}", number + 10, labels={"app": "a", "x": ""})
        world.wire.on("GET", "/api/v1/pods*", Reply.json({"metadata": {}, "items": []}))
        held = [] if labels and "x" in labels else ["ours"]
        assert names(await world.client.list(Pod, labels=labels)) == held
        [sent] = world.wire.sent("GET", "/api/v1/pods")
        wanted = {"app": "app=a", "x": "x="}
        assert sent.query.get("labelSelector", "") == ",".join(wanted[each] for each in labels or ())


class TestLiveList:
    @pytest.fixture
    async def server(self, wire: ScriptedWire) -> PodServer:
        server = PodServer(wire)
        server.on("list", page(1))
        return server

    async def test_live_list_yields_the_complete_list_at_the_start_and_after_every_change(
        self, client: Client, server: PodServer, wire: ScriptedWire
    ):
        stream = Listed(5, ("b", 2), ("a", 1))
        server.on("stream", stream)
        async with client.watch(Pod) as live:
            assert names(await anext(live)) == ["a", "b"]
            stream.event("ADDED", pod("c", 6))
            assert names(await anext(live)) == ["a", "b", "c"]
            stream.event("DELETED", pod("a", 7))
            assert names(await anext(live)) == ["b", "c"]
            assert not stream.closed
        assert stream.closed
        assert wire.in_progress == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def test_live_list_skips_intermediate_states_when_its_reader_is_slow(
        self, client: Client, server: PodServer
    ):
        stream = Listed(5)
        server.on("stream", stream)
        async with client.watch(Pod) as live:
            assert await anext(live) == []
            with pytest.raises(TimeoutError):  # no second list without a change
                await asyncio.wait_for(anext(live), 10)
            for number in range(10):
                stream.event("ADDED", pod(f"p{number}", 6 + number))
            await asyncio.sleep(1)
            assert len(await anext(live)) == 10
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(live), 10)

    async def test_live_list_continues_when_its_watch_breaks(self, client: Client, server: PodServer):
        first, second = Listed(5, ("a", 1)), Listed(9, ("b", 8))
        server.on("stream", first, second)
        server.on("watch", Reply.status(410, "Expired"))
        async with client.watch(Pod) as live:
            assert names(await anext(live)) == ["a"]
            first.cut()
            assert names(await anext(live)) == ["b"]
            assert live.problem is None

    async def test_live_list_raises_the_error_of_the_first_request(
        self, client: Client, server: PodServer, wire: ScriptedWire
    ):
        server.on("check", Reply.status(403, "Forbidden", "no pods for you"))
        with pytest.raises(Forbidden, match="no pods for you"):
            async with client.watch(Pod):
                pass
        assert wire.in_progress == 0

    async def test_live_list_sends_its_selectors_to_the_server(self, client: Client, wire: ScriptedWire):
        server = PodServer(wire, "/api/v1/namespaces/n/pods")
        server.on("check", page(1))
        server.on("stream", Listed(5))
        selection = {"label_selector": "app=web", "field_selector": "metadata.name=p"}
        async with client.watch(Pod, namespace="n", **selection) as live:
            await anext(live)
        wanted = {"labelSelector": "app=web", "fieldSelector": "metadata.name=p"}
        assert server.sorts() == ["check", "stream"]
        for sent in wire.sent("GET", "/api/v1/namespaces/n/pods"):
            assert wanted.items() <= sent.query.items()
