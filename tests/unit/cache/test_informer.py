from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from manager.api import GroupVersionKind, ObjectKey, PartialObjectMetadata
from manager.cache.division import ByOwner, ByUid, Division
from manager.cache.event import CacheEvent, EventType
from manager.cache.following import NARROW_AFTER
from manager.cache.informer import Informer
from manager.cache.record import RecordDecoder
from manager.cache.spec import WatchSpec
from manager.kube.errors import ProtocolError
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.metrics import Metrics
from manager.shards.ranges import Ranges, label_of
from tests.support.scripted_wire import Delayed, Reply, ScriptedWire, Stream
from tests.unit.cache.objects import Pod, Told, encoded, moments, pod, running
from tests.unit.cache.server import Listed, PodServer, bookmark
from tests.unit.conftest import LogLines

pytestmark = pytest.mark.virtual_time

Make = Callable[..., Informer]


@pytest.fixture
async def make(transport: Transport, metrics: Metrics, rng: random.Random) -> Make:
    def build(ranges: Ranges | None = None, division: Division | None = None, **spec: Any) -> Informer:
        metadata_only = spec.get("metadata_only", False)
        return Informer(
            WatchSpec(gvk=Pod.gvk, plural=Pod.plural, **spec),
            RecordDecoder(Pod.gvk, field_manager="m", metadata_only=metadata_only),
            transport=transport,
            mapper=RestMapper(transport),
            restarts=metrics.watch_restarts,
            failures=metrics.cache_failures,
            rng=rng,
            division=None if ranges is None else division or ByUid(),
            ranges=ranges,
        )

    return build


@pytest.fixture
async def informer(make: Make) -> Informer:
    return make()


class TestFollowing:
    async def test_informer_lists_objects_and_tells_subscribers_of_changes(
        self, informer: Informer, wire: ScriptedWire
    ):
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

    async def test_informer_of_two_namespaces_has_two_watches(
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

    async def test_informer_event_has_the_time_at_which_it_arrived(
        self, informer: Informer, wire: ScriptedWire
    ):
        stream = Listed(10)
        PodServer(wire).on("stream", stream)
        told = Told()
        informer.subscribe(told)
        async with running(informer):
            await asyncio.sleep(5)
            stream.event("ADDED", pod("a", 11))
            await moments()
        assert told.events[0].received == pytest.approx(5)

    async def test_informer_counts_objects_and_bytes(self, informer: Informer):
        informer.subscribe(Told())
        raw = encoded(pod("a", 5))
        informer.observe_write(raw)
        assert (informer.spec.resource, informer.spec.projection) == ("pods", "full")
        assert (len(informer), informer.size) == (1, len(raw))


class TestSubscribers:
    async def test_subscriber_gets_present_objects_as_initial_events_when_it_comes_late(
        self, informer: Informer
    ):
        informer.observe_write(encoded(pod("a", 5)))
        told = Told()
        informer.subscribe(told)
        assert [(event.type, event.initial) for event in told.events] == [(EventType.ADDED, True)]

    async def test_subscriber_gets_no_present_object_without_replay(self, informer: Informer):
        informer.observe_write(encoded(pod("a", 5)))
        told = Told()
        informer.subscribe(told, replay=False)
        assert told.take() == []

    async def test_subscriber_failure_is_logged_and_does_not_affect_others(
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

    async def test_subscriber_gets_no_event_after_it_has_left(self, informer: Informer):
        told = Told()
        cancel = informer.subscribe(told)
        cancel()
        cancel()
        informer.observe_write(encoded(pod("a", 5)))
        assert told.take() == []

    async def test_subscriber_may_leave_during_an_event(self, informer: Informer):
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

    async def test_subscriber_sees_the_object_of_its_event_in_the_informer(self, informer: Informer):
        seen: list[int | None] = []

        def look(event: CacheEvent) -> None:
            held = informer.get(event.key)
            seen.append(held and held.version)

        informer.subscribe(look)
        informer.observe_write(encoded(pod("a", 5)))
        informer.observe_delete(ObjectKey("ns", "a"), "a-1", b'{"kind":"Status"}')
        assert seen == [5, None]

    async def test_subscriber_gets_the_metadata_before_and_after_a_change(self, informer: Informer):
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
    async def test_own_write_is_read_back_at_once(self, informer: Informer):
        informer.observe_write(encoded(pod("a", 5)))
        held = informer.get(ObjectKey("ns", "a"))
        assert held is not None
        assert held.decode(Pod).metadata.resource_version == "5"
        assert [record.version for record in informer.list(namespace="ns")] == [5]

    async def test_own_write_is_told_to_subscribers_once(self, informer: Informer, wire: ScriptedWire):
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

    async def test_own_write_without_finalizers_removes_a_deleting_object(self, informer: Informer):
        deleting = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        informer.observe_write(encoded(pod("a", 5, **deleting, finalizers=["x"])))
        assert len(informer) == 1
        informer.observe_write(encoded(pod("a", 6, **deleting)))
        assert len(informer) == 0

    async def test_own_write_in_an_unwatched_namespace_is_ignored(self, make: Make):
        informer = make(namespaces=("one",))
        informer.observe_write(encoded(pod("a", 5, namespace="two")))
        informer.observe_delete(ObjectKey("two", "a"), "a-1", b'{"kind":"Status"}')
        assert len(informer) == 0

    async def test_own_write_of_an_unknown_object_is_ignored_with_a_field_selector(self, make: Make):
        informer = make(field_selector="spec.nodeName=n1")
        informer.observe_write(encoded(pod("a", 5)))
        assert len(informer) == 0

    async def test_own_write_is_kept_as_metadata_when_the_informer_holds_metadata(self, make: Make):
        informer = make(metadata_only=True)
        informer.observe_write(encoded(pod("a", 5, labels={"app": "web"})))
        (record,) = informer.list(labels="app=web")
        decoded = record.decode(PartialObjectMetadata)
        assert decoded.model_extra == {}
        assert (decoded.kind, decoded.metadata.name) == ("PartialObjectMetadata", "a")

    async def test_own_write_raises_protocol_error_when_the_answer_is_garbage(self, informer: Informer):
        with pytest.raises(ProtocolError):
            informer.observe_write(b"<html>")
        with pytest.raises(ProtocolError):
            informer.observe_delete(ObjectKey("ns", "a"), None, b"<html>")


class TestOurOwnDeletes:
    A = ObjectKey("ns", "a")

    @pytest.fixture(autouse=True)
    async def held(self, informer: Informer):
        informer.observe_write(encoded(pod("a", 5)))

    @pytest.mark.parametrize(
        ("uid", "answer"),
        [
            ("a-1", b'{"kind":"Status","status":"Success"}'),
            (None, b'{"kind":"Status","details":{"uid":"a-1"}}'),
            ("a-1", encoded(pod("a", 5))),
        ],
        ids=["a status", "its UID in the answer", "the object as it was"],
    )
    async def test_own_delete_removes_the_object_at_once(
        self, informer: Informer, uid: str | None, answer: bytes
    ):
        informer.observe_delete(self.A, uid, answer)
        assert informer.get(self.A) is None

    @pytest.mark.parametrize("uid", [None, "a-0"], ids=["unknown", "a namesake that is gone"])
    async def test_own_delete_keeps_an_object_whose_uid_differs_or_is_unknown(
        self, informer: Informer, uid: str | None
    ):
        informer.observe_delete(self.A, uid, b'{"kind":"Status"}')
        assert informer.get(self.A) is not None

    async def test_own_delete_marks_an_object_with_a_finalizer_as_deleting(self, informer: Informer):
        answer = pod("a", 6, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x"])
        informer.observe_delete(self.A, "a-1", encoded(answer))
        held = informer.get(self.A)
        assert held is not None
        assert held.deleting


async def test_informer_lists_objects_by_a_custom_index(informer: Informer):
    informer.add_index("node", lambda record, meta: [record.decode(Pod).spec["nodeName"]])
    informer.observe_write(encoded(pod("a", 5, spec={"nodeName": "n1"})))
    informer.observe_write(encoded(pod("b", 6, spec={"nodeName": "n2"})))
    assert [record.key.name for record in informer.list(index=("node", "n2"))] == ["b"]


RANGES = 4


def uid_in(number: int, but: str = "") -> str:
    """A UID of that range, of which there are four."""
    return next(
        uid
        for uid in (f"{count}-is-the-uid-of-{but}" for count in range(1000))
        if Ranges.of(RANGES, ()).number_of(uid) == number
    )


def in_range(number: int, version: int, name: str = "") -> dict[str, Any]:
    return pod(name or f"in-{number}", version, uid=uid_in(number, name))


def some(*numbers: int) -> Ranges:
    return Ranges.of(RANGES, numbers)


def listed(version: int, *pods: dict[str, Any]) -> Reply:
    return Reply.json({"metadata": {"resourceVersion": str(version)}, "items": list(pods)})


class TestRanges:
    """Of objects of some ranges, whatever the server sends of others."""

    @pytest.fixture
    async def restricted(self, make: Make) -> Informer:
        return make(ranges=some(0, 1))

    @pytest.fixture
    def server(self, wire: ScriptedWire) -> PodServer:
        """One that heeds no shardSelector, and has an object of each range."""
        server, self.stream = PodServer(wire), Stream()
        for number in range(RANGES):
            self.stream.event("ADDED", in_range(number, number + 1))
        self.stream.event("BOOKMARK", bookmark(10, ends_list=True))
        server.on("stream", self.stream)
        return server

    def held(self, informer: Informer) -> list[str]:
        return [each.key.name for each in informer.list()]

    async def test_informer_asks_for_its_ranges_and_drops_other_objects(
        self, restricted: Informer, server: PodServer
    ):
        async with running(restricted):
            await moments()
            assert self.held(restricted) == ["in-0", "in-1"]
            assert [sent.query["shardSelector"] for sent in server.sent("stream")] == [some(0, 1).selector]
            assert (restricted.knows(1), restricted.knows(2), restricted.synced) == (True, False, True)
            assert not restricted.has_all_of("ns"), "what it has not may be another replica's"
            self.stream.event("ADDED", in_range(0, 11, "new"))
            self.stream.event("MODIFIED", in_range(2, 12))
            restricted.observe_write(encoded(in_range(3, 13)))
            await moments()
            assert self.held(restricted) == ["in-0", "in-1", "new"]

    async def test_informer_sends_no_request_while_it_has_no_range(self, make: Make, server: PodServer):
        informer = make(ranges=some())
        async with running(informer):
            await informer.wait_synced()
            await asyncio.sleep(60)
            assert (server.sorts(), informer.problem) == ([], None)

    async def test_informer_lists_a_new_range_while_its_watch_continues(
        self, restricted: Informer, server: PodServer
    ):
        told, learned = Told(), list[bool]()
        server.on("list", Delayed(2.0, listed(20, in_range(2, 15), in_range(3, 4))))
        async with running(restricted):
            await moments()
            restricted.subscribe(told, replay=False)
            restricted.when_learned(lambda: learned.append(restricted.knows(2)))
            restricted.restrict(some(0, 1, 2))
            await moments()
            self.stream.event("MODIFIED", in_range(0, 18))
            self.stream.event("MODIFIED", in_range(2, 19))
            await moments()
            assert told.take() == ["MODIFIED ns/in-0@18"]
            watch = Stream()
            server.on("watch", watch)
            await asyncio.sleep(2)
            assert told.take() == ["ADDED ns/in-2@15"]
            assert learned == [True]
            assert server.sorts() == ["stream", "list", "watch"]
            assert server.sent("list")[0].query["shardSelector"] == some(2).selector
            query = server.sent("watch")[0].query
            assert (query["shardSelector"], query["resourceVersion"]) == (some(0, 1, 2).selector, "19")

    async def test_informer_tells_a_change_between_list_and_watch_once(
        self, restricted: Informer, server: PodServer
    ):
        told, watch = Told(), Stream()
        server.on("list", Delayed(2.0, listed(12, in_range(2, 12))))
        server.on("watch", watch)
        async with running(restricted):
            await moments()
            restricted.subscribe(told, replay=False)
            restricted.restrict(some(0, 1, 2))
            await moments()
            self.stream.event("DELETED", in_range(0, 13))
            self.stream.event("MODIFIED", in_range(1, 20))
            await asyncio.sleep(2)
            assert told.take() == ["DELETED ns/in-0@1", "MODIFIED ns/in-1@20", "ADDED ns/in-2@12"]
            assert server.sent("watch")[0].query["resourceVersion"] == "12"
            # The watch begins before what was known of the others.
            watch.event("DELETED", in_range(0, 13))
            watch.event("DELETED", in_range(2, 14))
            watch.event("ADDED", in_range(1, 15, "gone"))
            watch.event("DELETED", in_range(1, 16, "gone"))
            watch.event("MODIFIED", in_range(1, 20))
            watch.event("ADDED", in_range(1, 21, "new"))
            await moments()
            assert told.take() == ["DELETED ns/in-2@12", "ADDED ns/new@21"]

    async def test_informer_drops_a_lost_range_at_once_and_narrows_its_watch_later(
        self, restricted: Informer, server: PodServer
    ):
        told, watch = Told(), Stream()
        server.on("watch", watch)
        async with running(restricted):
            await moments()
            restricted.subscribe(told, replay=False)
            restricted.restrict(some(0))
            assert self.held(restricted) == ["in-0"]
            assert [(event.type.value, event.handed_over) for event in told.events] == [("DELETED", True)]
            self.stream.event("MODIFIED", in_range(1, 11))
            await moments()
            assert self.held(restricted) == ["in-0"]
            assert server.sorts() == ["stream"]
            await asyncio.sleep(NARROW_AFTER)
            assert server.sorts() == ["stream", "watch"]
            assert server.sent("watch")[0].query["shardSelector"] == some(0).selector

    async def test_informer_continues_its_first_list_when_it_loses_a_range(
        self, make: Make, server: PodServer
    ):
        stream = Stream()
        server.on("stream", stream)
        restricted = make(ranges=some(0, 1))
        async with running(restricted):
            await moments()
            restricted.restrict(some(0))
            await asyncio.sleep(3 * NARROW_AFTER)
            assert server.sorts() == ["stream"], "it would be listed again"
            for number in (0, 1):
                stream.event("ADDED", in_range(number, number + 1))
            stream.event("BOOKMARK", bookmark(10, ends_list=True))
            await moments()
            assert (self.held(restricted), restricted.knows(0), restricted.knows(1)) == (
                ["in-0"],
                True,
                False,
            )
            await asyncio.sleep(2 * NARROW_AFTER)
            assert server.sorts() == ["stream", "watch"]
            assert server.sent("watch")[0].query["shardSelector"] == some(0).selector

    async def test_informer_knows_nothing_of_a_regained_range_before_it_is_listed(
        self, restricted: Informer, server: PodServer
    ):
        server.on("list", listed(12, in_range(1, 12, "other")))
        server.on("watch", Stream())
        async with running(restricted):
            await moments()
            restricted.restrict(some(0))
            restricted.restrict(some(0, 1))
            assert not restricted.knows(1)
            assert self.held(restricted) == ["in-0"]
            await moments()
            assert self.held(restricted) == ["in-0", "other"]

    @pytest.mark.parametrize(
        "answer", [Reply.status(500, "", "no"), listed(9, in_range(2, 3))], ids=["fails", "is behind"]
    )
    async def test_informer_lists_all_ranges_when_the_list_of_a_new_range_fails(
        self, restricted: Informer, server: PodServer, answer: Reply
    ):
        server.on("list", answer)
        async with running(restricted):
            await moments()
            server.on("stream", Listed(30))
            restricted.restrict(some(0, 1, 2))
            await asyncio.sleep(40)
            assert restricted.knows(2)
            assert self.held(restricted) == []
            assert server.sent("stream")[-1].query["shardSelector"] == some(0, 1, 2).selector


FOO = GroupVersionKind(group="example.com", version="v1", kind="Foo")
LABEL = "m/shard"


def child(name: str, version: int, *, label: str | None = None, **owner: Any) -> dict[str, Any]:
    """A Pod with that label; its controller, if there is an `owner`, is a Foo but for what is given."""
    controller = {"apiVersion": "example.com/v1", "kind": "Foo", "name": "foo", "controller": True, **owner}
    labels = {} if label is None else {LABEL: label}
    return pod(name, version, ownerReferences=[controller] if owner else [], labels=labels)


def label_in(number: int) -> str:
    return label_of(uid_in(number))


class TestChildren:
    """Of objects of some ranges: by their label, and without one by their owner."""

    @pytest.fixture
    async def division(self) -> ByOwner:
        division = ByOwner(LABEL)
        division.add(FOO)
        return division

    @pytest.fixture
    async def restricted(self, make: Make, division: ByOwner) -> Informer:
        return make(ranges=some(0, 1), division=division)

    @pytest.fixture
    async def server(self, wire: ScriptedWire) -> PodServer:
        server, self.stream = PodServer(wire), Stream()
        server.on("stream", self.stream)
        for version, each in enumerate(
            (
                {"name": "labelled", "label": label_in(0)},
                {"name": "owned", "uid": uid_in(1)},
                {"name": "labelled-by-somebody", "uid": uid_in(1), "label": "first"},
                {"name": "anothers-by-its-label", "uid": uid_in(1), "label": label_in(2)},
                {"name": "anothers-by-its-owner", "uid": uid_in(3)},
                {"name": "of-another-kind", "uid": uid_in(1), "kind": "Bar"},
                {"name": "of-another-group", "uid": uid_in(1), "apiVersion": "v1"},
                {"name": "not-controlled", "uid": uid_in(1), "controller": False},
                {"name": "nobodys"},
            ),
            start=1,
        ):
            self.stream.event("ADDED", child(version=version, **each))
        self.stream.event("BOOKMARK", bookmark(10, ends_list=True))
        return server

    def held(self, informer: Informer) -> list[str]:
        return [each.key.name for each in informer.list()]

    async def test_informer_excludes_the_labels_of_other_shards_and_drops_strangers(
        self, restricted: Informer, server: PodServer
    ):
        async with running(restricted):
            await moments()
            assert self.held(restricted) == ["labelled", "labelled-by-somebody", "owned"]
            (asked,) = server.sent("stream")
            assert asked.query["labelSelector"] == f"{LABEL} notin ({','.join(some(2, 3).labels)})"
            assert "shardSelector" not in asked.query

    async def test_informer_combines_its_label_selector_with_the_shard_labels(
        self, make: Make, division: ByOwner, server: PodServer
    ):
        restricted = make(ranges=some(0, 1), division=division, label_selector="app=web")
        async with running(restricted):
            await moments()
            (asked,) = server.sent("stream")
            assert asked.query["labelSelector"].startswith(f"app=web,{LABEL} notin (80,")

    async def test_informer_with_all_ranges_leaves_out_no_object(
        self, make: Make, division: ByOwner, server: PodServer
    ):
        informer = make(ranges=some(0, 1, 2, 3), division=division)
        async with running(informer):
            await moments()
            assert len(self.held(informer)) == 5
            assert "labelSelector" not in server.sent("stream")[0].query

    async def test_informer_follows_children_whose_shard_label_changes(
        self, restricted: Informer, server: PodServer
    ):
        told = Told()
        async with running(restricted):
            await moments()
            restricted.subscribe(told, replay=False)
            self.stream.event("MODIFIED", child("owned", 11, uid=uid_in(1), label=label_in(1)))
            self.stream.event("MODIFIED", child("labelled", 12, uid=uid_in(0)))
            # The server tells of what leaves a selection as if it went, in the state before.
            self.stream.event("DELETED", child("owned", 13, uid=uid_in(1), label=label_in(1)))
            self.stream.event("ADDED", child("owned", 14, uid=uid_in(1)))
            # Another one's by its owner, and no label says otherwise any more.
            self.stream.event("MODIFIED", child("labelled", 15, uid=uid_in(3)))
            self.stream.event("DELETED", child("anothers-by-its-owner", 16, uid=uid_in(3)))
            await moments()
            assert told.take() == [
                "MODIFIED ns/owned@11",
                "MODIFIED ns/labelled@12",
                "DELETED ns/owned@11",
                "ADDED ns/owned@14",
                "DELETED ns/labelled@12",
            ]

    async def test_own_write_shows_at_once_unless_the_child_is_in_another_shard(
        self, restricted: Informer, server: PodServer
    ):
        async with running(restricted):
            await moments()
            restricted.observe_write(encoded(child("new", 11, uid=uid_in(0), label=label_in(0))))
            restricted.observe_write(encoded(child("others", 12, uid=uid_in(2), label=label_in(2))))
            # As it was before somebody had taken the label away.
            self.stream.event("DELETED", child("new", 10, uid=uid_in(0), label=label_in(0)))
            await moments()
            assert self.held(restricted) == ["labelled", "labelled-by-somebody", "new", "owned"]

    async def test_informer_lists_new_ranges_and_drops_lost_ones(
        self, restricted: Informer, server: PodServer
    ):
        told, watch = Told(), Stream()
        server.on("list", listed(20, child("third", 15, label=label_in(2)), child("nobodys", 9)))
        server.on("watch", watch)
        async with running(restricted):
            await moments()
            restricted.subscribe(told, replay=False)
            restricted.restrict(some(1, 2))
            assert self.held(restricted) == ["labelled-by-somebody", "owned"]
            assert [event.handed_over for event in told.events] == [True]
            await moments()
            assert self.held(restricted) == ["labelled-by-somebody", "owned", "third"]
            asked = [sent.query["labelSelector"] for sent in (*server.sent("list"), *server.sent("watch"))]
            others = [some(0, 1, 3).labels, some(0, 3).labels]
            assert asked == [f"{LABEL} notin ({','.join(each)})" for each in others]
            # What the list was ahead of, and what has moved from one range to another since.
            watch.event("MODIFIED", child("third", 14, label=label_in(2)))
            watch.event("MODIFIED", child("third", 21, label=label_in(1)))
            await moments()
            assert [each.version for each in restricted.list() if each.key.name == "third"] == [21]
