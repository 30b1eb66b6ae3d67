"""Reconcile requests caused by the declared event sources of an operator; the test fills the cache."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from manager import (
    Operator,
    Owns,
    Reads,
    Result,
    Watch,
    all_of,
    any_of,
    created_or_deleted,
    generation_changed,
    not_,
    status_changed,
    webhook,
)
from manager.api import ObjectKey, Resource, Unstructured
from manager.cache import Cache, CacheEvent, Informer, Meta, Selection
from manager.client import Client
from manager.controller import Controller, ControllerOptions
from manager.election.coordinator import Coordinator
from manager.operator import add_controller
from manager.process.manager import Runnable
from manager.settings import SettingValues
from manager.telemetry.metrics import Metrics
from manager.telemetry.runs import History
from manager.webhook import AdmissionRequest
from tests.unit.cache.objects import Pod
from tests.unit.controller.doubles import Foo, Reconciler, Watched, offline_cache, owner, raw, turns

pytestmark = pytest.mark.virtual_time


class Host:
    """Stand-in for the manager."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.rng = random.Random(1)
        self.cache: Cache = offline_cache(metrics)
        self.client = Client(None, None, self.cache, field_manager="test")
        self.history = History()
        self.coordinator = Coordinator()
        self.settings = SettingValues()
        self.controllers: list[Controller] = []
        self.operator: Any = None

    def synced(self, *kinds: type[Resource]) -> list[Watched]:
        """Return a `Watched` informer for each kind, after an empty first list."""
        watched = [Watched(self.cache, kind) for kind in kinds]
        for each in watched:
            each.synced()
        return watched

    def add(self, part: Controller | Runnable) -> None:
        if isinstance(part, Controller):
            self.controllers.append(part)

    def runs(
        self, operator: type[Operator[Any]], options: ControllerOptions | None = None
    ) -> tuple[Controller, Reconciler]:
        """Return an operator's controller, and the stub reconciler that records its requests."""
        self.operator, reconciler = operator(self), Reconciler()
        self.operator.reconcile_key = reconciler.reconcile
        return add_controller(self.operator, options), reconciler


class ByKey(Operator[Foo]):
    """Operator without event sources; `declaring` makes a subclass with the attributes of a test."""

    async def reconcile_key(self, key: ObjectKey) -> Result | None:
        raise NotImplementedError


def declaring(**attributes: Any) -> type[ByKey]:
    return type("Declared", (ByKey,), attributes)


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


BY_LABEL = Watch(Pod, label="foo")


async def test_each_event_source_can_have_its_own_selection_of_namespaces_labels_and_fields(host: Host):
    here, node = Selection.of(namespaces=["here"]), Selection.of(field_selector="spec.nodeName=n1")
    owned, read = Selection.of(label_selector="app=foo"), Selection.of(label_selector="app=bar")
    watch = Watch(Pod, label="foo", metadata_only=True, selection=node)
    owns, reads = (Owns(Pod, selection=owned),), (Reads(Pod, selection=read),)
    host.runs(declaring(selection=here, owns=owns, watches=(watch,), reads=reads))
    lookup = host.cache.lookup
    assert lookup(Foo, selection=here) is not None
    assert lookup(Pod, selection=owned) is not None
    assert lookup(Pod, metadata_only=True, selection=node) is not None
    assert lookup(Pod, selection=read) is not None
    assert len(host.cache.informers) == 4


BARE = Unstructured.of(Foo.gvk.api_version, "Foo"), Unstructured.of("v1", "Pod")


@pytest.mark.parametrize(("primary", "owned"), [(Foo, Pod), BARE], ids=["models", "without models"])
async def test_primary_object_is_enqueued_by_its_events_and_events_of_children_and_mapped_objects(
    host: Host, primary: type[Resource], owned: type[Resource]
):
    watches = (Watch(owned, label="foo"),)
    controller, reconciler = host.runs(declaring(kind=primary, owns=(owned,), watches=watches))
    foos, pods = host.synced(Foo, Pod)
    async with running(controller):
        foos.put("f1")
        pods.put("p1", ownerReferences=[owner("f2")])
        pods.put("p2", labels={"foo": "f3"})
        pods.put("p3", ownerReferences=[owner("f4")], labels={"foo": "f4"})
        pods.put("p4")
        await turns()
    assert (controller.name, reconciler.names) == ("foo", ["f1", "f2", "f3", "f4"])


async def test_controller_waits_for_the_first_list_of_every_kind_in_its_reads_declaration(host: Host):
    controller, reconciler = host.runs(declaring(reads=(Reads(Pod, metadata_only=True),)))
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


async def test_predicate_of_a_watch_does_not_affect_the_owns_declaration_of_the_same_kind(host: Host):
    declared = declaring(owns=(Pod,), watches=(Watch(Pod, label="foo", on=created_or_deleted),))
    controller, reconciler = host.runs(declared)
    _, pods = host.synced(Foo, Pod)
    async with running(controller):
        pods.put("p1", labels={"foo": "mapped"}, ownerReferences=[owner("owner")])
        await turns()
        pods.put("p1", labels={"foo": "mapped"}, ownerReferences=[owner("owner")], generation=2)
        await turns()
    assert sorted(reconciler.names) == ["mapped", "owner", "owner"]


async def test_cache_of_an_owned_kind_has_only_metadata_of_foreign_objects(host: Host):
    judged: list[str] = []

    def judge(event: CacheEvent) -> bool:
        judged.append(event.key.name)
        return False

    controller, reconciler = host.runs(declaring(owns=(Owns(Pod, on=judge),)))
    informer = host.cache.lookup(Pod)
    _, pods = host.synced(Foo), Watched(host.cache, Pod, informer=informer)
    pods.synced()
    async with running(controller):
        pods.put("others")
        pods.put("ours", ownerReferences=[owner("f1")])
        await turns()
        assert [record.key.name for record in informer.list() if record.is_cut] == ["others"]
        assert (judged, reconciler.names) == (["ours"], [])
        pods.put("others", ownerReferences=[owner("f2")])  # adopted
        pods.put("ours")  # orphaned
        await turns()
    assert (judged, reconciler.names) == (["ours"], ["f2", "f1"])


@pytest.mark.parametrize("on", [status_changed, any_of(created_or_deleted, not_(all_of(status_changed)))])
def test_source_that_caches_no_status_refuses_the_status_changed_predicate(on: Any):
    for source, why in (
        (Owns(Pod, on=on, metadata_only=True), "Owns(Pod): with metadata_only, "),
        (Watch(Pod, label="foo", on=on, metadata_only=True), "Watch(Pod): with metadata_only, "),
        (
            Watch(Pod, label="foo", on=on, selection=Selection.of(keeps=["spec.statusPage"])),
            "Watch(Pod): its selection keeps no status, so ",
        ),
    ):
        of = "owns" if isinstance(source, Owns) else "watches"
        with pytest.raises(
            TypeError, match=re.escape(f"Declared: {why}status_changed never lets an event pass")
        ):
            declaring(**{of: (source,)})
    declaring(watches=(Watch(Pod, label="foo", on=on, selection=Selection.of(keeps=["status.phase"])),))


@pytest.mark.parametrize(
    "declared",
    [
        {"owns": (Owns(Pod, on=generation_changed, metadata_only=True),)},
        {"owns": (Owns(Pod, on=generation_changed),), "reads": (Pod,)},
        {"owns": (Owns(Pod, on=generation_changed),)},
        {"owns": (), "watches": (Watch(Pod, label="foo", on=generation_changed),)},
        {"owns": (), "watches": (Watch(Pod, label="foo", on=generation_changed, metadata_only=True),)},
    ],
    ids=["owned metadata", "owned and read", "owned", "watched", "watched metadata"],
)
async def test_source_enqueues_only_for_events_that_its_predicate_accepts(
    host: Host, declared: dict[str, Any]
):
    controller, reconciler = host.runs(declaring(**declared))
    [source] = declared["owns"] or declared["watches"]
    informer = host.cache.lookup(Pod, metadata_only=source.metadata_only)
    host.synced(Foo)
    pods = Watched(host.cache, Pod, informer=informer)
    pods.synced()
    ours = {"ownerReferences": [owner("f1")], "labels": {"foo": "f1"}}
    async with running(controller):
        pods.put("p1", **ours, generation=1)
        await turns()
        pods.put("p1", **ours, generation=1, annotations={"a": "b"})
        await turns()
        assert reconciler.names == ["f1"]
        pods.put("p1", **ours, generation=2)
        await turns()
        assert reconciler.names == ["f1", "f1"]
        if declared["owns"]:
            pods.put("p1", ownerReferences=[owner("f1") | {"blockOwnerDeletion": False}], generation=2)
            await turns()
            pods.put("p1", generation=2)  # orphaned
            await turns()
            assert reconciler.names == ["f1"] * 4


@pytest.mark.parametrize(
    "declared",
    [
        {"owns": (Owns(Pod, indexes={"first": lambda record, _: [record.key.name[0]]}),)},
        {"owns": (Pod,), "reads": (Pod,)},
        {"owns": (Pod,), "watches": (BY_LABEL,)},
    ],
    ids=["an index", "reads", "watches"],
)
async def test_cache_of_an_owned_kind_has_complete_objects_when_a_declaration_needs_them(
    host: Host, declared: dict[str, Any]
):
    host.runs(declaring(**declared))
    host.cache.observe_write(Pod, raw("others"))
    [record] = host.cache.lookup(Pod).list()
    assert not record.is_cut


async def test_watch_enqueues_the_keys_that_its_enqueue_function_returns(host: Host):
    def named_alike(pod: Meta, foos: Informer) -> Iterable[ObjectKey]:
        return [foo.key for foo in foos.list(index=("first", pod.name[0]))]

    declared = declaring(
        indexes={"first": lambda record, _: [record.key.name[0]]}, watches=(Watch(Pod, enqueue=named_alike),)
    )
    controller, reconciler = host.runs(declared)
    foos, pods = Watched(host.cache, Foo), Watched(host.cache, Pod)
    foos.listed("a1", "a2", "b1")
    foos.synced()
    pods.synced()
    async with running(controller):
        reconciler.calls.clear()
        pods.put("a-pod")
        await turns()
    assert reconciler.names == ["a1", "a2"]


@pytest.mark.parametrize("given", [{}, {"label": "foo", "enqueue": lambda _, __: []}])
def test_watch_requires_exactly_one_of_label_and_enqueue(given: dict[str, Any]):
    with pytest.raises(ValueError, match=r"Watch\(Pod\)"):
        Watch(Pod, **given)


async def test_object_that_waits_for_a_name_is_enqueued_on_any_event_of_that_name(host: Host):
    controller, reconciler = host.runs(declaring(owns=(Owns(Pod, on=not_(all_of())),)))
    _, pods = host.synced(Foo, Pod)
    async with running(controller):
        host.operator.waits_for(Pod, ObjectKey("ns", "p1"), ObjectKey("ns", "f1"))
        pods.put("p1", ownerReferences=[owner("f2")])
        await turns()
        assert reconciler.names == ["f1"]
        [run] = host.history.of(controller.name).of(ObjectKey("ns", "f1"))
        assert run.why == "Pod p1, whose name the object needs, added"
        host.operator.waits_no_more(ObjectKey("ns", "f1"))
        pods.delete("p1")
        await turns()
    assert reconciler.names == ["f1"]
    host.operator.waits_for(Pod, ObjectKey("ns", "p1"), ObjectKey("ns", "f1"))
    host.operator.forget(ObjectKey("ns", "f1"))
    assert not host.operator.waiting_for_names
    assert not host.operator.awaited_names


async def test_add_controller_returns_none_for_an_operator_with_webhooks_only(host: Host):
    class WebhookOnly(Operator[Foo]):
        @webhook.validate_create
        async def accept(self, foo: Foo, request: AdmissionRequest) -> None: ...

    assert add_controller(WebhookOnly(host)) is None
    assert host.controllers == []


async def test_operator_enqueue_adds_a_key_before_and_after_the_controller_starts(host: Host):
    controller, reconciler = host.runs(ByKey)
    host.synced(Foo)
    host.operator.enqueue(ObjectKey("ns", "early"))
    async with running(controller):
        host.operator.enqueue(ObjectKey("ns", "late"))
        await turns()
    assert reconciler.names == ["early", "late"]


@pytest.mark.parametrize(
    ("declared", "given", "period"), [(None, None, 36_000), (900, None, 900), (900, 600, 600)]
)
async def test_controller_enqueues_every_object_in_each_resync_period(
    host: Host, declared: float | None, given: float | None, period: float
):
    own, ours = (each and ControllerOptions(resync_period=each) for each in (declared, given))
    controller, reconciler = host.runs(declaring(options=own) if own else ByKey, ours)
    foos = Watched(host.cache, Foo)
    foos.listed("f1", "f2")
    foos.synced()
    async with running(controller):
        await asyncio.sleep(0.85 * period)
        assert reconciler.names == ["f1", "f2"]
        await asyncio.sleep(0.4 * period)
        assert reconciler.names == ["f1", "f2"] * 2
        foos.delete("f1")
        await asyncio.sleep(period)
    assert reconciler.names == ["f1", "f2", "f1", "f2", "f1", "f2"]
