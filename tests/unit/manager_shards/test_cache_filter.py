"""Informers that cache only objects of some shards."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from manager.api import GroupVersionKind
from manager.cache.informer import Informer
from manager.cache.reflector import Upstream
from manager.client.child_label import label_of
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from manager_shards.cache_filter import NARROW_AFTER, ShardFilter
from manager_shards.shard_set import ShardSet
from tests.support.scripted_wire import Delayed, Reply, ScriptedWire, Stream
from tests.unit.cache.objects import EventLog, encoded, moments, pod, pod_informer, running
from tests.unit.cache.server import Listed, PodServer, bookmark

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("log_lines")]

Make = Callable[..., Informer]


@pytest.fixture
async def make(transport: Transport, mapper: RestMapper, metrics: Metrics, rng: random.Random) -> Make:
    def build(
        shards: ShardSet, label: str = "", learned: Callable[[], None] = lambda: None, **spec: Any
    ) -> Informer:
        shard_filter = ShardFilter(shards, label=label, learned=learned)
        return pod_informer(Upstream(transport, mapper, metrics, rng), object_filter=shard_filter, **spec)

    return build


def held(informer: Informer) -> list[str]:
    return [each.key.name for each in informer.list()]


@asynccontextmanager
async def watched(informer: Informer) -> AsyncIterator[EventLog]:
    """Run the informer; yield the log of the events after its first list."""
    told = EventLog()
    async with running(informer):
        await moments()
        informer.subscribe(told, replay=False)
        yield told


def filter_of(informer: Informer) -> ShardFilter:
    assert isinstance(informer.filter, ShardFilter)
    return informer.filter


SHARDS = 4


def uid_in(number: int, but: str = "") -> str:
    """Return a UID of shard `number` (of four); the UID contains the text `but`."""
    return next(
        uid
        for uid in (f"{count}-is-the-uid-of-{but}" for count in range(1000))
        if ShardSet.of(SHARDS, ()).number_of(uid) == number
    )


def in_shard(number: int, version: int, name: str = "") -> dict[str, Any]:
    return pod(name or f"in-{number}", version, uid=uid_in(number, name))


def some(*numbers: int) -> ShardSet:
    return ShardSet.of(SHARDS, numbers)


def listed(version: int, *pods: dict[str, Any]) -> Reply:
    return Reply.json({"metadata": {"resourceVersion": str(version)}, "items": list(pods)})


class TestShardFilter:
    """Informers of some shards, with a server that also sends objects of other shards."""

    @pytest.fixture
    async def restricted(self, make: Make) -> Informer:
        return make(shards=some(0, 1))

    @pytest.fixture(autouse=True)
    def serve(self, wire: ScriptedWire) -> None:
        """Script a server with one object in each shard; the server ignores the parameter shardSelector."""
        self.server, self.stream = PodServer(wire), Stream()
        for number in range(SHARDS):
            self.stream.event("ADDED", in_shard(number, number + 1))
        self.stream.event("BOOKMARK", bookmark(10, ends_list=True))
        self.server.on("stream", self.stream)

    async def test_informer_requests_only_its_shards_and_ignores_other_objects(self, restricted: Informer):
        async with running(restricted):
            await moments()
            assert held(restricted) == ["in-0", "in-1"]
            assert [sent.query["shardSelector"] for sent in self.server.sent("stream")] == [
                some(0, 1).selector
            ]
            assert [filter_of(restricted).has_listed(number) for number in (1, 2)] == [True, False]
            assert restricted.synced
            assert not restricted.has_all_of("ns"), "a missing object may belong to another replica"
            self.stream.event("ADDED", in_shard(0, 11, "new"))
            self.stream.event("MODIFIED", in_shard(2, 12))
            restricted.observe_write(encoded(in_shard(3, 13)))
            await moments()
            assert held(restricted) == ["in-0", "in-1", "new"]

    async def test_informer_without_a_shard_sends_no_request(self, make: Make):
        informer = make(shards=some())
        async with running(informer):
            await informer.wait_synced()
            await asyncio.sleep(60)
            assert (self.server.sorts(), informer.problem) == ([], None)

    async def test_informer_lists_a_new_shard_while_its_watch_continues(self, make: Make):
        learned = list[bool]()
        restricted = make(
            shards=some(0, 1), learned=lambda: learned.append(filter_of(restricted).has_listed(2))
        )
        self.server.on("list", Delayed(2.0, listed(20, in_shard(2, 15), in_shard(3, 4))))
        async with watched(restricted) as told:
            filter_of(restricted).restrict(some(0, 1, 2))
            await moments()
            self.stream.event("MODIFIED", in_shard(0, 18))
            self.stream.event("MODIFIED", in_shard(2, 19))
            await moments()
            assert told.take() == ["MODIFIED ns/in-0@18"]
            watch = Stream()
            self.server.on("watch", watch)
            await asyncio.sleep(2)
            assert told.take() == ["ADDED ns/in-2@15"]
            assert learned == [False, True]
            assert self.server.sorts() == ["stream", "list", "watch"]
            assert self.server.sent("list")[0].query["shardSelector"] == some(2).selector
            query = self.server.sent("watch")[0].query
            assert (query["shardSelector"], query["resourceVersion"]) == (some(0, 1, 2).selector, "19")

    async def test_informer_reports_a_change_once_when_the_new_watch_repeats_it(self, restricted: Informer):
        watch = Stream()
        self.server.on("list", Delayed(2.0, listed(12, in_shard(2, 12))))
        self.server.on("watch", watch)
        async with watched(restricted) as told:
            filter_of(restricted).restrict(some(0, 1, 2))
            await moments()
            self.stream.event("DELETED", in_shard(0, 13))
            self.stream.event("MODIFIED", in_shard(1, 20))
            await asyncio.sleep(2)
            assert told.take() == ["DELETED ns/in-0@1", "MODIFIED ns/in-1@20", "ADDED ns/in-2@12"]
            assert self.server.sent("watch")[0].query["resourceVersion"] == "12"
            # The watch starts at version 12, so it repeats earlier events of the other shards.
            watch.event("DELETED", in_shard(0, 13))
            watch.event("DELETED", in_shard(2, 14))
            watch.event("ADDED", in_shard(1, 15, "gone"))
            watch.event("DELETED", in_shard(1, 16, "gone"))
            watch.event("MODIFIED", in_shard(1, 20))
            watch.event("ADDED", in_shard(1, 21, "new"))
            await moments()
            assert told.take() == ["DELETED ns/in-2@12", "ADDED ns/new@21"]

    async def test_informer_drops_a_lost_shard_immediately_and_narrows_the_watch_later(
        self, restricted: Informer
    ):
        watch = Stream()
        self.server.on("watch", watch)
        async with watched(restricted) as told:
            filter_of(restricted).restrict(some(0))
            assert held(restricted) == ["in-0"]
            assert [(event.type.value, event.handed_over) for event in told.events] == [("DELETED", True)]
            self.stream.event("MODIFIED", in_shard(1, 11))
            await moments()
            assert held(restricted) == ["in-0"]
            assert self.server.sorts() == ["stream"]
            await asyncio.sleep(NARROW_AFTER)
            assert self.server.sorts() == ["stream", "watch"]
            assert self.server.sent("watch")[0].query["shardSelector"] == some(0).selector

    async def test_informer_continues_its_first_list_for_other_shards_when_it_loses_a_shard(self, make: Make):
        stream = Stream()
        self.server.on("stream", stream)
        restricted = make(shards=some(0, 1))
        async with running(restricted):
            await moments()
            filter_of(restricted).restrict(some(0))
            await asyncio.sleep(3 * NARROW_AFTER)
            assert self.server.sorts() == ["stream"], "another request would list again"
            for number in (0, 1):
                stream.event("ADDED", in_shard(number, number + 1))
            stream.event("BOOKMARK", bookmark(10, ends_list=True))
            await moments()
            assert held(restricted) == ["in-0"]
            assert [filter_of(restricted).has_listed(number) for number in (0, 1)] == [True, False]
            await asyncio.sleep(2 * NARROW_AFTER)
            assert self.server.sorts() == ["stream", "watch"]
            assert self.server.sent("watch")[0].query["shardSelector"] == some(0).selector

    async def test_informer_caches_objects_of_a_regained_shard_after_a_new_list(self, restricted: Informer):
        self.server.on("list", listed(12, in_shard(1, 12, "other")))
        self.server.on("watch", Stream())
        async with running(restricted):
            await moments()
            filter_of(restricted).restrict(some(0))
            filter_of(restricted).restrict(some(0, 1))
            assert not filter_of(restricted).has_listed(1)
            assert held(restricted) == ["in-0"]
            await moments()
            assert held(restricted) == ["in-0", "other"]

    @pytest.mark.parametrize(
        "answer", [Reply.status(500, "", "no"), listed(9, in_shard(2, 3))], ids=["fails", "is behind"]
    )
    async def test_informer_lists_all_its_shards_when_the_list_of_a_new_shard_fails_or_is_outdated(
        self, restricted: Informer, answer: Reply
    ):
        self.server.on("list", answer)
        async with running(restricted):
            await moments()
            self.server.on("stream", Listed(30))
            filter_of(restricted).restrict(some(0, 1, 2))
            await asyncio.sleep(40)
            assert filter_of(restricted).has_listed(2)
            assert held(restricted) == []
            assert self.server.sent("stream")[-1].query["shardSelector"] == some(0, 1, 2).selector


FOO = GroupVersionKind(group="example.com", version="v1", kind="Foo")
LABEL = "m/shard"


def child(name: str, version: int, *, label: str | None = None, **owner: Any) -> dict[str, Any]:
    """Return a Pod with this shard label; `owner` sets fields of the Foo that controls the Pod."""
    controller = {"apiVersion": "example.com/v1", "kind": "Foo", "name": "foo", "controller": True, **owner}
    labels = {} if label is None else {LABEL: label}
    return pod(name, version, ownerReferences=[controller] if owner else [], labels=labels)


def label_in(number: int) -> str:
    return label_of(uid_in(number))


class TestShardFilterChildren:
    """Informers of children; the label, or else the owner, determines the shard of a child."""

    @pytest.fixture
    async def children(self, make: Make) -> Make:
        def build(*numbers: int, **spec: Any) -> Informer:
            informer = make(shards=some(*numbers), label=LABEL, **spec)
            filter_of(informer).add_owner(FOO)
            return informer

        return build

    @pytest.fixture
    async def restricted(self, children: Make) -> Informer:
        return children(0, 1)

    @pytest.fixture(autouse=True)
    async def serve(self, wire: ScriptedWire) -> None:
        self.server, self.stream = PodServer(wire), Stream()
        self.server.on("stream", self.stream)
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

    async def test_informer_omits_children_of_other_shards_and_objects_that_belong_to_no_shard(
        self, children: Make
    ):
        informer = children(0, 1, label_selector="app=web")
        async with running(informer):
            await moments()
            assert held(informer) == ["labelled", "labelled-by-somebody", "owned"]
            (asked,) = self.server.sent("stream")
            assert asked.query["labelSelector"] == f"app=web,{LABEL} notin ({','.join(some(2, 3).labels)})"
            assert "shardSelector" not in asked.query

    async def test_informer_with_all_shards_caches_the_children_of_every_shard_without_a_label_selector(
        self, children: Make
    ):
        informer = children(0, 1, 2, 3)
        async with running(informer):
            await moments()
            assert len(held(informer)) == 5
            assert "labelSelector" not in self.server.sent("stream")[0].query

    async def test_informer_adds_and_removes_children_when_a_shard_label_changes(self, restricted: Informer):
        async with watched(restricted) as told:
            self.stream.event("MODIFIED", child("owned", 11, uid=uid_in(1), label=label_in(1)))
            self.stream.event("MODIFIED", child("labelled", 12, uid=uid_in(0)))
            # When an object leaves the selection, the server sends DELETED with the object's last state.
            self.stream.event("DELETED", child("owned", 13, uid=uid_in(1), label=label_in(1)))
            self.stream.event("ADDED", child("owned", 14, uid=uid_in(1)))
            # Without a label, the owner determines the shard: another replica's.
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

    async def test_observe_write_caches_a_child_only_when_the_replica_owns_its_shard(
        self, restricted: Informer
    ):
        async with running(restricted):
            await moments()
            restricted.observe_write(encoded(child("new", 11, uid=uid_in(0), label=label_in(0))))
            restricted.observe_write(encoded(child("others", 12, uid=uid_in(2), label=label_in(2))))
            # The object before its label was removed.
            self.stream.event("DELETED", child("new", 10, uid=uid_in(0), label=label_in(0)))
            await moments()
            assert held(restricted) == ["labelled", "labelled-by-somebody", "new", "owned"]

    async def test_informer_lists_new_shards_and_drops_lost_shards(self, restricted: Informer):
        watch = Stream()
        self.server.on("list", listed(20, child("third", 15, label=label_in(2)), child("nobodys", 9)))
        self.server.on("watch", watch)
        async with watched(restricted) as told:
            filter_of(restricted).restrict(some(1, 2))
            assert held(restricted) == ["labelled-by-somebody", "owned"]
            assert [event.handed_over for event in told.events] == [True]
            await moments()
            assert held(restricted) == ["labelled-by-somebody", "owned", "third"]
            asked = [
                sent.query["labelSelector"]
                for sent in (*self.server.sent("list"), *self.server.sent("watch"))
            ]
            others = [some(0, 1, 3).labels, some(0, 3).labels]
            assert asked == [f"{LABEL} notin ({','.join(each)})" for each in others]
            # A change before the list, and one that moves the object to another shard.
            watch.event("MODIFIED", child("third", 14, label=label_in(2)))
            watch.event("MODIFIED", child("third", 21, label=label_in(1)))
            await moments()
            assert [each.version for each in restricted.list() if each.key.name == "third"] == [21]
