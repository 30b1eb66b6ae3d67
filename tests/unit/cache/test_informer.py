from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from manager.api import ObjectKey, PartialObjectMetadata
from manager.cache.event import CacheEvent, EventType
from manager.cache.informer import Informer
from manager.cache.record import RecordDecoder
from manager.cache.spec import WatchSpec
from manager.kube.errors import ProtocolError
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.metrics import Metrics
from tests.support.scripted_wire import Reply, ScriptedWire
from tests.unit.cache.objects import Pod, Told, encoded, moments, pod, running
from tests.unit.cache.server import Listed, PodServer
from tests.unit.conftest import LogLines

pytestmark = pytest.mark.virtual_time

Make = Callable[..., Informer]


@pytest.fixture
async def make(transport: Transport, metrics: Metrics, rng: random.Random) -> Make:
    def build(**spec: Any) -> Informer:
        metadata_only = spec.get("metadata_only", False)
        return Informer(
            WatchSpec(gvk=Pod.gvk, plural=Pod.plural, **spec),
            RecordDecoder(Pod.gvk, field_manager="m", metadata_only=metadata_only),
            transport=transport,
            mapper=RestMapper(transport),
            restarts=metrics.watch_restarts,
            failures=metrics.cache_failures,
            rng=rng,
        )

    return build


@pytest.fixture
async def informer(make: Make) -> Informer:
    return make()


class TestFollowing:
    async def test_shows_and_tells_what_the_server_has(self, informer: Informer, wire: ScriptedWire):
        stream = Listed(10, ("b", 1), ("a", 2))
        PodServer(wire).on("stream", stream)
        told = Told()
        informer.subscribe(told)
        assert not informer.synced
        assert informer.problem == "pods: waiting for the first list"
        async with running(informer):
            await informer.wait_synced()
            assert informer.synced
            assert informer.problem is None
            assert [record.key.name for record in informer.list()] == ["a", "b"]
            assert told.take() == ["ADDED ns/b@1", "ADDED ns/a@2"]

    async def test_of_two_namespaces_is_two_watches(
        self, make: Make, wire: ScriptedWire, log_lines: LogLines
    ):
        informer = make(namespaces=("one", "two"))
        one, two = (PodServer(wire, f"/api/v1/namespaces/{name}/pods") for name in ("one", "two"))
        one.on("stream", Listed(10))
        two.on(
            "stream", Reply.status(403, "Forbidden", "no"), Reply.status(403, "Forbidden", "no"), Listed(10)
        )
        async with running(informer):
            await moments()
            assert not informer.synced
            assert informer.problem == "pods: forbidden: no"
            await informer.wait_synced()
            assert informer.problem is None
            assert [each.state.value for each in informer._reflectors] == ["watch", "watch"]
        assert [line["namespace"] for line in log_lines if line["event"] == "synced"] == ["one", "two"]

    async def test_tells_the_time_at_which_a_change_arrived(self, informer: Informer, wire: ScriptedWire):
        stream = Listed(10)
        PodServer(wire).on("stream", stream)
        told = Told()
        informer.subscribe(told)
        async with running(informer):
            await asyncio.sleep(5)
            stream.event("ADDED", pod("a", 11))
            await moments()
        assert told.events[0].received == pytest.approx(5)

    async def test_is_counted(self, informer: Informer):
        informer.subscribe(Told())
        raw = encoded(pod("a", 5))
        informer.observe_write(raw)
        assert (informer.spec.resource, informer.spec.projection) == ("pods", "full")
        assert (len(informer), informer.size) == (1, len(raw))


class TestSubscribers:
    async def test_that_come_late_are_told_what_is_there(self, informer: Informer):
        informer.observe_write(encoded(pod("a", 5)))
        told = Told()
        informer.subscribe(told)
        assert [(event.type, event.initial) for event in told.events] == [(EventType.ADDED, True)]

    async def test_may_do_without_what_is_there(self, informer: Informer):
        informer.observe_write(encoded(pod("a", 5)))
        told = Told()
        informer.subscribe(told, replay=False)
        assert told.take() == []

    async def test_that_fail_are_logged_and_disturb_nobody(
        self, informer: Informer, metrics: Metrics, log_lines: LogLines
    ):
        def broken(event: CacheEvent) -> None:
            raise RuntimeError("no")

        told = Told()
        informer.subscribe(broken)
        informer.subscribe(told)
        informer.observe_write(encoded(pod("a", 5)))
        informer.observe_write(encoded(pod("a", 6)))
        assert told.take() == ["ADDED ns/a@5", "MODIFIED ns/a@6"]
        assert [(line["event"], line["object"]) for line in log_lines] == [
            ("an event handler failed", "ns/a")
        ]
        labels = {"kind": "pods", "part": "handler"}
        assert metrics.registry.get_sample_value("operator_manager_cache_failures_total", labels) == 2

    async def test_that_left_are_told_nothing(self, informer: Informer):
        told = Told()
        cancel = informer.subscribe(told)
        cancel()
        cancel()
        informer.observe_write(encoded(pod("a", 5)))
        assert told.take() == []

    async def test_may_leave_while_they_are_told(self, informer: Informer):
        told, other = Told(), Told()

        def leave(event: CacheEvent) -> None:
            told(event)
            cancel()

        cancel = informer.subscribe(leave)
        informer.subscribe(other)
        informer.observe_write(encoded(pod("a", 5)))
        informer.observe_write(encoded(pod("a", 6)))
        assert told.take() == ["ADDED ns/a@5"]
        assert other.take() == ["ADDED ns/a@5", "MODIFIED ns/a@6"]

    async def test_see_what_they_are_told_of(self, informer: Informer):
        seen: list[int | None] = []

        def look(event: CacheEvent) -> None:
            held = informer.get(event.key)
            seen.append(held and held.version)

        informer.subscribe(look)
        informer.observe_write(encoded(pod("a", 5)))
        informer.observe_delete(ObjectKey("ns", "a"), "a-1", b'{"kind":"Status"}')
        assert seen == [5, None]

    async def test_get_the_metadata_before_and_after(self, informer: Informer):
        told = Told()
        informer.subscribe(told)
        informer.observe_write(encoded(pod("a", 5, labels={"app": "web"})))
        informer.observe_write(encoded(pod("a", 6, labels={"app": "db"})))
        added, modified = told.events
        assert added.old_meta is None
        assert added.meta.labels == {"app": "web"}
        assert modified.old_meta is not None
        assert (modified.old_meta.labels, modified.meta.labels) == ({"app": "web"}, {"app": "db"})
        assert repr(modified) == "<MODIFIED ns/a 6>"


class TestOurOwnWrites:
    async def test_are_read_back_at_once(self, informer: Informer):
        informer.observe_write(encoded(pod("a", 5)))
        held = informer.get(ObjectKey("ns", "a"))
        assert held is not None
        assert held.decode(Pod).metadata.resource_version == "5"
        assert [record.version for record in informer.list(namespace="ns")] == [5]

    async def test_are_told_once(self, informer: Informer, wire: ScriptedWire):
        stream = Listed(10)
        PodServer(wire).on("stream", stream)
        told = Told()
        informer.subscribe(told)
        async with running(informer):
            await informer.wait_synced()
            informer.observe_write(encoded(pod("a", 11)))
            stream.event("ADDED", pod("a", 11))
            await moments()
        assert told.take() == ["ADDED ns/a@11"]

    async def test_that_remove_the_last_finalizer_remove_the_object(self, informer: Informer):
        deleting = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        informer.observe_write(encoded(pod("a", 5, **deleting, finalizers=["x"])))
        assert len(informer) == 1
        informer.observe_write(encoded(pod("a", 6, **deleting)))
        assert len(informer) == 0

    async def test_of_other_namespaces_are_not_taken(self, make: Make):
        informer = make(namespaces=("one",))
        informer.observe_write(encoded(pod("a", 5, namespace="two")))
        informer.observe_delete(ObjectKey("two", "a"), "a-1", b'{"kind":"Status"}')
        assert len(informer) == 0

    async def test_outside_the_label_selector_are_not_taken(self, make: Make):
        informer = make(label_selector="app=web")
        informer.observe_write(encoded(pod("a", 5)))
        informer.observe_write(encoded(pod("b", 6, labels={"app": "web"})))
        assert [record.key.name for record in informer.list()] == ["b"]

    async def test_outside_what_is_cached_are_not_taken_with_a_field_selector(self, make: Make):
        informer = make(field_selector="spec.nodeName=n1")
        informer.observe_write(encoded(pod("a", 5)))
        assert len(informer) == 0

    async def test_are_kept_as_metadata_where_only_that_is_wanted(self, make: Make):
        informer = make(metadata_only=True)
        informer.observe_write(encoded(pod("a", 5, labels={"app": "web"})))
        (record,) = informer.list(labels="app=web")
        decoded = record.decode(PartialObjectMetadata)
        assert decoded.model_extra == {}
        assert (decoded.kind, decoded.metadata.name) == ("PartialObjectMetadata", "a")

    async def test_answered_by_garbage_are_an_error(self, informer: Informer):
        with pytest.raises(ProtocolError):
            informer.observe_write(b"<html>")
        with pytest.raises(ProtocolError):
            informer.observe_delete(ObjectKey("ns", "a"), None, b"<html>")


class TestOurOwnDeletes:
    A = ObjectKey("ns", "a")

    @pytest.fixture(autouse=True)
    async def held(self, informer: Informer):
        informer.observe_write(encoded(pod("a", 5)))

    async def test_answered_by_a_status_show_at_once(self, informer: Informer):
        informer.observe_delete(self.A, "a-1", b'{"kind":"Status","status":"Success"}')
        assert informer.get(self.A) is None

    async def test_may_take_the_uid_from_the_answer(self, informer: Informer):
        informer.observe_delete(self.A, None, b'{"kind":"Status","details":{"uid":"a-1"}}')
        assert informer.get(self.A) is None

    async def test_of_an_unknown_object_are_left_to_the_watch(self, informer: Informer):
        informer.observe_delete(self.A, None, b'{"kind":"Status"}')
        assert informer.get(self.A) is not None

    async def test_answered_by_the_object_as_it_was_show_at_once(self, informer: Informer):
        informer.observe_delete(self.A, "a-1", encoded(pod("a", 5)))
        assert informer.get(self.A) is None

    async def test_that_wait_for_a_finalizer_are_a_change(self, informer: Informer):
        answer = pod("a", 6, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x"])
        informer.observe_delete(self.A, "a-1", encoded(answer))
        held = informer.get(self.A)
        assert held is not None
        assert held.deleting

    async def test_of_a_namesake_that_is_gone_leave_the_present_one_alone(self, informer: Informer):
        informer.observe_delete(self.A, "a-0", b'{"kind":"Status"}')
        assert informer.get(self.A) is not None


async def test_an_operators_own_index_finds_objects(informer: Informer):
    informer.add_index("node", lambda record, meta: [record.decode(Pod).spec["nodeName"]])
    informer.observe_write(encoded(pod("a", 5, spec={"nodeName": "n1"})))
    informer.observe_write(encoded(pod("b", 6, spec={"nodeName": "n2"})))
    assert [record.key.name for record in informer.list(index=("node", "n2"))] == ["b"]
