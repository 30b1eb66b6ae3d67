from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from manager.api import ObjectKey, PartialObjectMetadata
from manager.cache import Cache, Informer, index_by
from manager.telemetry.metrics import Metrics
from tests.support.scripted_wire import Reply, ScriptedWire
from tests.unit.cache.objects import EventLog, Node, Pod, Widget, encoded, moments, pod, running
from tests.unit.cache.server import Listed, PodServer, expired

pytestmark = pytest.mark.virtual_time


def owned(name: str, version: int) -> dict[str, Any]:
    """Return a Pod owned by a Widget."""
    owner = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "w", "controller": True}
    return pod(name, version, ownerReferences=[owner])


async def test_cache_uses_one_informer_for_all_users_of_a_kind(cache: Cache, server: PodServer):
    class OtherPod(Pod, version="v1", kind="Pod", plural="pods"):
        pass

    server.on("stream", Listed(10))
    assert cache.lookup(Pod) is None
    informer = cache.informer(Pod)
    assert cache.informer(Pod) is cache.informer(OtherPod) is cache.lookup(Pod) is informer
    assert cache.lookup(Pod, metadata_only=True) is None
    async with running(cache):
        await cache.wait_synced()
        await moments()
    assert server.sorts() == ["stream"]
    assert cache.informer(Pod, metadata_only=True) is not informer


class TestCacheOwnedBy:
    """Informer that caches complete objects if a given kind owns them, and otherwise only metadata."""

    def held(self, informer: Informer) -> dict[str, bool]:
        """Return for each cached object, by name, whether it is complete."""
        return {record.key.name: not record.is_cut for record in informer.list()}

    async def test_informer_with_owned_by_caches_only_metadata_of_objects_without_an_owner_of_that_kind(
        self, cache: Cache, wire: ScriptedWire
    ):
        stream = Listed(10, ("theirs", 1), ("another", 2))
        PodServer(wire).on("stream", stream, Listed(30, ("another", 2), ("new", 20)))
        informer = cache.informer(Pod, owned_by=Widget)
        told = EventLog()
        informer.subscribe(told)
        async with running(cache):
            await cache.wait_synced()
            await moments()
            stream.event("ADDED", owned("ours", 11))
            stream.event("MODIFIED", owned("theirs", 12))
            await moments()
            assert self.held(informer) == {"another": False, "ours": True, "theirs": True}
            assert informer.size == sum(len(record.raw) for record in informer.list())
            assert [record.key.name for record in informer.list(owner_uid="w")] == ["ours", "theirs"]
            stream.event("MODIFIED", pod("ours", 13))
            stream.event("DELETED", owned("theirs", 14))
            await moments()
            assert self.held(informer) == {"another": False, "ours": False}
            assert told.take() == [
                "ADDED ns/theirs@1",
                "ADDED ns/another@2",
                "ADDED ns/ours@11",
                "MODIFIED ns/theirs@12",
                "MODIFIED ns/ours@13",
                "DELETED ns/theirs@12",
            ]
            before = informer.get(ObjectKey("ns", "another"))
            stream.event("ERROR", expired())
            await asyncio.sleep(60)
            assert told.take() == ["DELETED ns/ours@13", "ADDED ns/new@20"]
            assert informer.get(ObjectKey("ns", "another")) is before
            assert self.held(informer) == {"another": False, "new": False}

    async def test_observe_write_caches_complete_objects_that_a_given_kind_owns_or_this_program_wrote(
        self, cache: Cache
    ):
        informer = cache.informer(Pod, owned_by=Node)
        assert cache.informer(Pod, owned_by=Widget) is informer
        cache.observe_write(Pod, encoded(pod("theirs", 1)))
        cache.observe_write(Pod, encoded(owned("ours", 2)))
        cache.observe_write(Pod, encoded(pod("orphaned", 3, managedFields=[{"manager": "test-widget"}])))
        assert self.held(informer) == {"orphaned": True, "ours": True, "theirs": False}
        key = ObjectKey("ns", "theirs")
        assert cache.has(Pod, key), "subscribers learn of its deletion"
        assert cache.held(Pod, key) is None, "the cached metadata is not the complete object"

    @pytest.mark.parametrize("first", [True, False], ids=["complete-first", "metadata-first"])
    @pytest.mark.parametrize("needs", ["all", "index", "selection"])
    async def test_cache_keeps_complete_objects_when_another_caller_needs_complete_objects(
        self, cache: Cache, needs: str, first: bool
    ):
        def ask() -> Informer:
            selection = {"label_selector": "!none"} if needs == "selection" else {}
            owner = None if needs == "all" else Widget
            informer = cache.informer(Pod, owned_by=owner, **selection)
            if needs == "index":
                informer.add_index("node", index_by("spec.nodeName"))
            return informer

        asked = [ask()] if first else []
        children = cache.informer(Pod, owned_by=Widget)
        informer = asked[0] if first else ask()
        cache.observe_write(Pod, encoded(pod("theirs", 1)))
        assert self.held(informer) == {"theirs": True}
        assert (children is informer) is (needs != "selection")
        cache.release(children)
        cache.release(informer)
        assert cache.informers == ()

    async def test_stopped_cache_refuses_to_upgrade_a_metadata_informer_to_complete_objects(
        self, cache: Cache, wire: ScriptedWire
    ):
        PodServer(wire).on("stream", Listed(10, ("a", 1)))
        children = cache.informer(Pod, owned_by=Widget)
        async with running(cache):
            await cache.wait_synced()
        with pytest.raises(RuntimeError, match="the cache has only metadata of pods"):
            cache.informer(Pod)
        assert cache.informers == (children,)
        assert cache.lookup(Pod) is children

    async def test_running_cache_adds_a_second_informer_when_a_caller_needs_complete_objects(
        self, cache: Cache, wire: ScriptedWire
    ):
        PodServer(wire).on("stream", Listed(10, ("a", 1)), Listed(10, ("a", 1)))
        children = cache.informer(Pod, owned_by=Widget)
        async with running(cache):
            await cache.wait_synced()
            with pytest.raises(RuntimeError, match="the cache has only metadata of pods"):
                children.add_index("node", index_by("spec.nodeName"))
            whole = cache.informer(Pod)
            await whole.wait_synced()
            assert (self.held(children), self.held(whole)) == ({"a": False}, {"a": True})
            assert cache.lookup(Pod) is children
        assert cache.informer(Pod) is whole
        assert set(cache.informers) == {children, whole}
        for _ in range(2):
            cache.release(whole)
        assert cache.informers == (children,)


class TestCacheRun:
    async def test_cache_watches_kinds_requested_before_or_during_run(self, cache: Cache, wire: ScriptedWire):
        PodServer(wire).on("stream", Listed(10))
        cache.informer(Pod)
        async with running(cache):
            await moments()
            with pytest.raises(RuntimeError, match="already running"):
                await cache.run()
        async with running(cache):
            await moments()
            assert wire.in_progress == 1
            cache.informer(Pod, metadata_only=True)
            await moments()
            assert wire.in_progress == 2
        assert wire.in_progress == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def test_cache_syncs_a_kind_when_another_kind_fails(self, cache: Cache, wire: ScriptedWire):
        PodServer(wire).on("stream", Listed(10))
        wire.on("GET", "/apis/example.com/v1", Reply.json({"resources": []}))
        pods, widgets = cache.informer(Pod), cache.informer(Widget)
        async with running(cache):
            await asyncio.sleep(5)
            assert pods.synced
            assert not widgets.synced
            assert cache.problems() == ["widgets.example.com: not served (is the CRD installed?)"]


class TestCacheRelease:
    async def test_cache_ends_the_watch_and_frees_the_informer_after_its_last_release(
        self, cache: Cache, wire: ScriptedWire
    ):
        PodServer(wire).on("stream", Listed(10, ("a", 1)))
        informer = cache.informer(Pod)
        cache.informer(Pod)
        async with running(cache):
            await cache.wait_synced()
            cache.release(informer)
            await moments()
            assert wire.in_progress == 1
            gone = weakref.ref(informer)
            cache.release(informer)
            del informer
            await moments()
            assert wire.in_progress == 0
            assert cache.lookup(Pod) is None
            gc.collect()
            assert gone() is None

    async def test_cache_watches_a_released_kind_again_on_request(self, cache: Cache, server: PodServer):
        cache.release(cache.informer(Pod))
        assert cache.informers == (), "also before the cache has run"
        server.on("stream", Listed(10), Listed(20, ("a", 15)))
        async with running(cache):
            first = cache.informer(Pod)
            await first.wait_synced()
            cache.release(first)
            second = cache.informer(Pod)
            await second.wait_synced()
            assert second is not first
            assert len(second) == 1


class TestCacheSelection:
    async def test_cache_opens_one_watch_for_each_selector_and_namespace_list(
        self, cache: Cache, server: PodServer, wire: ScriptedWire
    ):
        server.on("stream", Listed(10))
        informers = [
            cache.informer(Pod),
            cache.informer(Pod, label_selector="app=web"),
            cache.informer(Pod, field_selector="spec.nodeName=n1"),
            cache.informer(Pod, label_selector="app=web", field_selector="spec.nodeName=n1"),
            cache.informer(Pod, label_selector="app=web", metadata_only=True),
            cache.informer(Pod, label_selector="app=web", namespaces=["two"]),
        ]
        assert len(set(informers)) == len(informers)
        assert cache.informer(Pod, label_selector=" app == web ") is informers[1]
        async with running(cache):
            await moments()
        queries = [sent.query for sent in server.sent("stream")]
        asked = {(query.get("labelSelector"), query.get("fieldSelector")) for query in queries}
        node = "spec.nodeName=n1"
        assert asked == {(None, None), ("app=web", None), (None, node), ("app=web", node)}
        assert wire.sent("GET", "/api/v1/namespaces/two/pods")

    async def test_observe_write_updates_every_informer_whose_selector_matches_the_object(self, cache: Cache):
        cache.observe_write(Pod, encoded(pod("a", 4)))
        cache.observe_delete(Pod, ObjectKey("ns", "a"), "a-1", b'{"kind":"Status"}')
        whole, metadata = cache.informer(Pod), cache.informer(Pod, metadata_only=True)
        web = cache.informer(Pod, label_selector="app=web")
        others = cache.informer(Pod, field_selector="spec.nodeName=n1"), cache.informer(Pod, namespaces=["x"])
        cache.observe_write(Pod, encoded(pod("a", 5, labels={"app": "web"})))
        cache.observe_write(Pod, encoded(pod("b", 6, labels={"app": "db"})))
        assert (len(whole), len(metadata), len(web)) == (2, 2, 1)
        cache.observe_write(Pod, encoded(pod("a", 7, labels={"app": "db"})))
        assert (len(whole), len(metadata), len(web)) == (2, 2, 0)
        cache.observe_delete(Pod, ObjectKey("ns", "a"), "a-1", b'{"kind":"Status"}')
        assert (len(whole), len(metadata), len(web)) == (1, 1, 0)
        assert [len(each) for each in others] == [0, 0]
        (record,) = metadata.list(labels={"app": "db"})
        assert record.decode(PartialObjectMetadata).model_extra == {}

    async def test_cache_metrics_sum_all_informers_of_a_kind(self, cache: Cache, metrics: Metrics):
        size = len(encoded(pod("b", 6)))

        def value(name: str) -> float | None:
            labels = {"kind": "pods", "projection": "full"}
            return metrics.registry.get_sample_value(f"operator_manager_cache_{name}", labels)

        whole, web = cache.informer(Pod), cache.informer(Pod, label_selector="app=web")
        cache.informer(Pod, metadata_only=True)
        cache.observe_write(Pod, encoded(pod("a", 5, labels={"app": "web"})))
        cache.observe_write(Pod, encoded(pod("b", 6)))
        assert value("objects") == 3
        web_size = value("bytes")
        cache.release(whole)
        assert (value("objects"), value("bytes")) == (1, (web_size - size) / 2)
        assert cache.lookup(Pod) is None
        cache.observe_write(Pod, encoded(pod("c", 7, labels={"app": "web"})))
        assert len(web) == 2
        cache.release(web)
        assert value("objects") is None


async def test_cache_uses_separate_informers_for_complete_objects_and_selected_fields(cache: Cache):
    parts = cache.informer(Pod, keeps=["status.phase"])
    cache.observe_write(Pod, encoded(pod("a", 5)))
    (record,) = parts.list()
    assert record.decode(Pod).spec == {}
    assert parts.spec.projection == "parts"
    assert cache.held(Pod, record.key) is cache.lookup(Pod) is None
    whole = cache.informer(Pod)
    assert whole is not parts is cache.informer(Pod, keeps=("status.phase",))
    assert cache.lookup(Pod) is whole
    cache.observe_write(Pod, encoded(pod("a", 5)))
    assert cache.held(Pod, record.key) is whole.get(record.key)


@pytest.mark.parametrize(("keeps", "error"), [(["status..phase"], ValueError), ("status", TypeError)])
async def test_cache_refuses_an_invalid_list_of_field_paths(cache: Cache, keeps: Any, error: type[Exception]):
    with pytest.raises(error, match=r"status"):
        cache.informer(Pod, keeps=keeps)
