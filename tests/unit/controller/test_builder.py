from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest

from manager.api import ObjectKey, Unstructured
from manager.cache import Cache, CacheEvent, Meta, Selection
from manager.controller import (
    ChannelSource,
    Controller,
    ControllerBuilder,
    ControllerOptions,
    Request,
    created_or_deleted,
)
from manager.metrics import Metrics
from tests.unit.cache.objects import Pod
from tests.unit.controller.doubles import Reconciler, turns
from tests.unit.controller.objects import Foo, owner
from tests.unit.controller.watched import Watched, offline_cache

pytestmark = pytest.mark.virtual_time


class Host:
    """Stands in for the manager."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.rng = random.Random(1)
        self.cache: Cache = offline_cache(metrics)
        self.controllers: list[Controller] = []

    def add_controller(self, controller: Controller) -> None:
        self.controllers.append(controller)


@pytest.fixture
def host(metrics: Metrics) -> Host:
    return Host(metrics)


@asynccontextmanager
async def running(controller: Controller) -> AsyncIterator[None]:
    task = asyncio.create_task(controller.run())
    await turns()
    yield
    task.cancel()
    await asyncio.wait([task])


def by_label(pod: Meta) -> Iterable[Request]:
    if name := pod.labels.get("foo"):
        yield Request(pod.namespace, name)


async def test_it_reads_like_a_sentence_and_hands_the_controller_to_the_manager(host: Host):
    options = ControllerOptions(max_concurrent_reconciles=3)
    controller = (
        ControllerBuilder(host, Foo)
        .owns(Pod)
        .watches(Pod, map_to=by_label, metadata_only=True)
        .options(options)
        .complete(Reconciler())
    )
    assert host.controllers == [controller]
    assert controller.name == "foo"
    assert controller.options is options


async def test_each_kind_and_projection_is_watched_once(host: Host):
    ControllerBuilder(host, Foo).owns(Pod).watches(Pod, map_to=by_label).complete(Reconciler())
    ControllerBuilder(host, Foo).named("other").owns(Pod, metadata_only=True).complete(Reconciler())
    watched = [(each.resource, each.projection) for each in host.cache.statistics().informers]
    assert watched == [
        ("foos.tutorial.my.domain", "full"),
        ("pods", "full"),
        ("pods", "metadata"),
    ]


async def test_each_source_may_select_its_objects(host: Host):
    (
        ControllerBuilder(host, Foo, namespaces=["here"])
        .owns(Pod, label_selector="app=foo")
        .watches(Pod, map_to=by_label, metadata_only=True, field_selector="spec.nodeName=n1")
        .reads(Pod, label_selector="app=bar")
        .complete(Reconciler())
    )
    lookup, select = host.cache.lookup, Selection.of
    assert lookup(Foo, selection=select(namespaces=["here"])) is not None
    assert lookup(Pod, selection=select(label_selector="app=foo")) is not None
    assert lookup(Pod, metadata_only=True, selection=select(field_selector="spec.nodeName=n1")) is not None
    assert lookup(Pod, selection=select(label_selector="app=bar")) is not None
    assert len(host.cache.statistics().informers) == 4


async def test_the_primary_its_children_and_what_is_mapped_ask_for_the_primary(host: Host):
    reconciler = Reconciler()
    controller = ControllerBuilder(host, Foo).owns(Pod).watches(Pod, map_to=by_label).complete(reconciler)
    foos, pods = Watched(host.cache, Foo), Watched(host.cache, Pod)
    foos.synced()
    pods.synced()
    async with running(controller):
        foos.put("f1")
        pods.put("p1", ownerReferences=[owner("f2")])
        pods.put("p2", labels={"foo": "f3"})
        pods.put("p3", ownerReferences=[owner("f4")], labels={"foo": "f4"})
        pods.put("p4")
        await turns()
    assert reconciler.names == ["f1", "f2", "f3", "f4"]


async def test_owner_and_owned_may_be_kinds_without_a_model(host: Host):
    reconciler = Reconciler()
    primary = Unstructured.of(Foo.gvk.api_version, "Foo")
    controller = ControllerBuilder(host, primary).owns(Unstructured.of("v1", "Pod")).complete(reconciler)
    foos, pods = Watched(host.cache, Foo), Watched(host.cache, Pod)
    foos.synced()
    pods.synced()
    async with running(controller):
        foos.put("f1")
        pods.put("p1", ownerReferences=[owner("f2")])
        await turns()
    assert controller.name == "foo"
    assert reconciler.names == ["f1", "f2"]


async def test_it_waits_for_every_kind_that_it_reads(host: Host):
    reconciler = Reconciler()
    controller = ControllerBuilder(host, Foo).reads(Pod, metadata_only=True).complete(reconciler)
    foos, pods = Watched(host.cache, Foo), Watched(host.cache, Pod, metadata_only=True)
    async with running(controller):
        foos.listed("f1")
        foos.synced()
        await turns()
        assert controller.ready_problem() == "waiting for caches: pods: waiting for the first list"
        assert reconciler.calls == []
        pods.synced()
        await turns()
        assert controller.ready_problem() is None
        assert reconciler.names == ["f1"]
        pods.put("p1", ownerReferences=[owner("f2")])
        await turns()
        assert reconciler.names == ["f1"]


async def test_a_status_that_was_written_does_not_call_the_reconciler_again(host: Host):
    reconciler = Reconciler()
    controller = ControllerBuilder(host, Foo).complete(reconciler)
    foos = Watched(host.cache, Foo)
    foos.synced()
    async with running(controller):
        foos.put("f1")
        await turns()
        foos.put("f1")
        await turns()
        assert len(reconciler.calls) == 1
        for change in (
            {"generation": 2},
            {"labels": {"a": "b"}},
            {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        ):
            foos.put("f1", **change)
            await turns()
    assert len(reconciler.calls) == 4


async def test_predicates_of_the_primary_replace_the_default(host: Host):
    reconciler = Reconciler()
    controller = ControllerBuilder(host, Foo).predicates().complete(reconciler)
    foos = Watched(host.cache, Foo)
    foos.synced()
    async with running(controller):
        for _ in range(3):
            foos.put("f1")
            await turns()
    assert len(reconciler.calls) == 3


async def test_predicates_of_a_watched_kind_are_its_own(host: Host):
    reconciler = Reconciler()
    controller = (
        ControllerBuilder(host, Foo)
        .owns(Pod)
        .watches(Pod, map_to=by_label, predicates=[created_or_deleted])
        .complete(reconciler)
    )
    foos, pods = Watched(host.cache, Foo), Watched(host.cache, Pod)
    foos.synced()
    pods.synced()
    async with running(controller):
        pods.put("p1", labels={"foo": "mapped"}, ownerReferences=[owner("owner")])
        await turns()
        pods.put("p1", labels={"foo": "mapped"}, ownerReferences=[owner("owner")], generation=2)
        await turns()
    assert sorted(reconciler.names) == ["mapped", "owner", "owner"]


async def test_a_handler_sees_the_event_itself(host: Host):
    seen: list[CacheEvent] = []

    def handle(event: CacheEvent) -> Iterable[Request]:
        seen.append(event)
        return [Request("elsewhere", "x")]

    reconciler = Reconciler()
    controller = ControllerBuilder(host, Foo).watches(Pod, handler=handle).complete(reconciler)
    foos, pods = Watched(host.cache, Foo), Watched(host.cache, Pod)
    foos.synced()
    pods.synced()
    async with running(controller):
        pods.put("p1")
        await turns()
    assert [event.key for event in seen] == [ObjectKey("ns", "p1")]
    assert reconciler.names == ["x"]


async def test_a_watch_needs_to_know_what_to_ask_for(host: Host):
    builder = ControllerBuilder(host, Foo)
    with pytest.raises(ValueError, match=r"watches\(Pod\)"):
        builder.watches(Pod)
    with pytest.raises(ValueError, match=r"watches\(Pod\)"):
        builder.watches(Pod, map_to=by_label, handler=lambda _: [])


async def test_other_sources_ask_too(host: Host):
    reconciler, channel = Reconciler(), ChannelSource()
    controller = ControllerBuilder(host, Foo).source(channel).complete(reconciler)
    Watched(host.cache, Foo).synced()
    channel.send(Request("ns", "early"))
    async with running(controller):
        channel.send(Request("ns", "late"))
        await turns()
    assert reconciler.names == ["early", "late"]


async def test_every_object_is_looked_at_again_within_half_a_day(host: Host):
    reconciler = Reconciler()
    controller = ControllerBuilder(host, Foo).complete(reconciler)
    foos = Watched(host.cache, Foo)
    foos.listed("f1", "f2")
    foos.synced()
    async with running(controller):
        await asyncio.sleep(8 * 3600)
        assert reconciler.names == ["f1", "f2"]
        await asyncio.sleep(4 * 3600)
        assert sorted(reconciler.names) == ["f1", "f1", "f2", "f2"]


async def test_with_a_resync_period_every_object_is_looked_at_again_and_again(host: Host):
    reconciler = Reconciler()
    options = ControllerOptions(resync_period=600)
    controller = ControllerBuilder(host, Foo).options(options).complete(reconciler)
    foos = Watched(host.cache, Foo)
    foos.listed("f1", "f2")
    foos.synced()
    async with running(controller):
        await asyncio.sleep(700)
        assert reconciler.names == ["f1", "f2"] * 2
        foos.delete("f1")
        await asyncio.sleep(600)
    assert reconciler.names == ["f1", "f2", "f1", "f2", "f1", "f2"]
