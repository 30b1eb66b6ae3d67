"""Replicas that own shards of the objects: their reconciles and write permits, and moves of shards."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, ClassVar, cast

import pytest

from devcluster import DevCluster
from devcluster.errors import StatusError
from devcluster.http_call import ApiResponse
from manager import Context, Operator, daemon, every
from manager.api import ObjectKey, ObjectMeta
from manager.client.child_label import label_of
from manager.client.errors import NotCached
from manager.controller import ControllerOptions, Result
from manager.election.lease import ElectionConfig
from manager.kube.errors import Fenced
from manager.kube.transport import Transport
from manager.kube.wire import Wire, WireRequest
from manager.operator import Blocked, add_controller
from manager.process.manager import Manager, Runnable
from manager.telemetry.metrics import Metrics
from manager.util.program import Program
from manager_kinds.core_v1 import ConfigMap, Secret
from manager_shards.coordinator import ShardCoordinator
from manager_shards.owned import KNOWN_WITHIN, OwnedShards
from manager_tools.simulation.loop import ThreadHold
from manager_tools.testing import LocalWire

pytestmark = pytest.mark.virtual_time
COUNT = 4
GRACE = 5.0
OBJECTS = [f"object-{number}" for number in range(12)]

Act = Callable[["Copying", Secret, Context], Awaitable[None]]


class Copying(Operator[Secret]):
    """Operator that calls the test's function, if any, and applies a ConfigMap for each Secret."""

    owns = (ConfigMap,)
    conditions = ()
    options = ControllerOptions(max_concurrent_reconciles=len(OBJECTS))
    act: ClassVar[Act | None] = None

    def setup(self) -> None:
        self.runs: list[tuple[str, float, float]] = []
        self.forgotten: list[str] = []
        self.left: list[str] = []
        self.ticks = 0
        self.once = 0
        self.manager.add(Runnable("once", self.run_once, leader_only=True))

    async def reconcile(self, obj: Secret, ctx: Context) -> None:
        began = asyncio.get_running_loop().time()
        try:
            if type(self).act is not None:
                await type(self).act(self, obj, ctx)
            named = ObjectMeta(name=obj.metadata.name, namespace=obj.metadata.namespace)
            await ctx.apply(ConfigMap(metadata=named))
        finally:
            self.runs.append((obj.metadata.name, began, asyncio.get_running_loop().time()))

    async def gone(self, key: ObjectKey) -> None:
        self.forgotten.append(key.name)

    def handed_over(self, key: ObjectKey) -> None:
        self.left.append(key.name)

    @every(10)
    async def tick(self) -> None:
        self.ticks += 1

    async def run_once(self) -> None:
        self.once += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.once -= 1


class Peer:
    def __init__(self, wire: Wire, identity: str, operator: type[Copying]) -> None:
        metrics, rng = Metrics(), random.Random(identity)
        self.transports = [Transport(wire, metrics=metrics, rng=rng, user_agent="test")]
        lane = Transport(wire, metrics=metrics, rng=rng, user_agent="test", beside=self.transports[0])
        self.transports.append(lane)
        election = ElectionConfig(
            transport=lane, namespace="default", name="test", identity=identity, rng=rng, metrics=metrics
        )
        self.owned = OwnedShards(COUNT, metrics, grace=GRACE)
        self.coordinator = ShardCoordinator(election, self.owned)
        self.manager = Manager(
            self.transports[0],
            program=Program("test", "0"),
            metrics=metrics,
            rng=rng,
            identity=identity,
            coordinator=self.coordinator,
        )
        self.operator = operator(self.manager)
        add_controller(self.operator)
        self.asked = asyncio.Event()
        self.run = asyncio.create_task(self.manager.run(self.asked), name=identity)

    @property
    def held(self) -> set[str]:
        """Return the names of the Secrets in the cache of the replica's own objects."""
        return {record.key.name for record in self.manager.cache.lookup(Secret, ours=True).list()}

    @property
    def seen(self) -> set[str]:
        return {name for name, _, _ in self.operator.runs}

    def moved(self, direction: str) -> float | None:
        labels = {"controller": self.operator.name, "direction": direction}
        registry = self.manager.metrics.registry
        return registry.get_sample_value("operator_manager_moved_keys_total", labels)

    async def stop(self) -> None:
        self.asked.set()
        await self.run
        for transport in self.transports:
            await transport.aclose()


class Peers:
    def __init__(self, cluster: DevCluster, operator: type[Copying]) -> None:
        self.cluster = cluster
        self.operator = operator
        self.all: list[Peer] = []

    async def start(self, *identities: str, wire: type[LocalWire] = LocalWire) -> list[Peer]:
        started = [Peer(wire(self.cluster), identity, self.operator) for identity in identities]
        self.all += started
        await asyncio.sleep(10)
        return started

    async def stop(self, peer: Peer, *, seconds: float = 5) -> None:
        """Stop a replica, and wait `seconds` for the others to take over its shards."""
        await peer.stop()
        self.all.remove(peer)
        await asyncio.sleep(seconds)

    async def share(self, *identities: str) -> list[Peer]:
        """Start replicas, create the objects, and return the replicas."""
        started = await self.start(*identities)
        await self.create(*OBJECTS)
        return started

    async def move(self) -> list[Peer]:
        """Start replica a, create the objects, and start replica b, which takes over some shards."""
        return [*await self.share("a"), *await self.start("b")]

    async def create(self, *names: str, of: str = "secrets") -> None:
        for name in names:
            await self.cluster.client.create(of, "default", {"metadata": {"name": name}})
        await asyncio.sleep(1)

    async def delete(self, *names: str) -> None:
        for name in names:
            await self.cluster.client.delete("secrets", "default", name)
        await asyncio.sleep(1)


@asynccontextmanager
async def peers(
    act: Act | None = None, *, gates: Sequence[str] = (), **attributes: Any
) -> AsyncIterator[Peers]:
    called = None if act is None else staticmethod(act)
    # With random UIDs, some runs would have a shard without objects.
    made = partial(DevCluster, port=None, feature_gates=gates, rng=random.Random(1))
    async with await asyncio.to_thread(made) as cluster:
        scene = Peers(cluster, type("Acting", (Copying,), {"act": called, **attributes}))
        yield scene
        for each in scene.all:
            await each.stop()


async def test_replica_that_takes_over_shards_reconciles_only_objects_that_the_predicate_accepts():
    wanted = staticmethod(lambda event: "a" in event.meta.labels)
    async with peers(on=wanted) as scene:
        a, b = await scene.start("a", "b")
        for number, name in enumerate(OBJECTS):
            body = {"metadata": {"name": name, "labels": {"a": "b"} if number % 2 else {}}}
            await scene.cluster.client.create("secrets", "default", body)
        await asyncio.sleep(1)
        await scene.stop(b)
        assert a.seen == set(OBJECTS[1::2])


async def test_operator_handed_over_is_called_for_objects_of_lost_shards_and_gone_for_deleted_objects():
    async with peers() as scene:
        a, b = await scene.move()
        assert b.seen
        assert set(a.operator.left) == b.seen
        assert (a.moved("taken"), a.moved("given_back")) == (0, len(b.seen)), (
            "no objects existed when replica a started"
        )
        assert (b.moved("taken"), b.moved("given_back")) == (len(b.seen), 0)
        await scene.delete(*OBJECTS)
        assert set(b.operator.forgotten) == b.seen
        assert set(a.operator.forgotten) == set(OBJECTS) - b.seen


async def test_endless_reconcile_is_cancelled_after_the_grace_period_when_its_shard_moves():
    async def never(operator: Copying, _: Secret, __: Context) -> None:
        if operator.manager is scene.all[0].manager:
            await asyncio.Event().wait()

    async with peers(never) as scene:
        a, b = await scene.move()
        assert b.seen == {name for name, _, _ in a.operator.runs}
        assert b.seen
        assert all(ended - began >= GRACE for _, began, ended in a.operator.runs)
        runs = sorted(a.operator.runs + b.operator.runs)
        for (name, _, ended), (following, began, _) in itertools.pairwise(runs):
            assert name != following or ended <= began, "two replicas reconcile one object at once"


async def test_each_daemon_runs_only_in_the_replica_that_owns_its_shard():
    @daemon
    async def follow(operator: Copying, obj: Secret) -> None:
        twice.extend(followers.keys() & {obj.metadata.name})
        followers[obj.metadata.name] = operator.manager
        try:
            await asyncio.Event().wait()
        finally:
            del followers[obj.metadata.name]

    followers, twice = dict[str, Manager](), list[str]()
    async with peers(follow=follow) as scene:
        (a,) = await scene.share("a")
        assert followers == dict.fromkeys(OBJECTS, a.manager)
        (b,) = await scene.start("b")
        await asyncio.sleep(1)
        assert followers.keys() == set(OBJECTS)
        assert {name for name, manager in followers.items() if manager is b.manager} == b.seen
        assert b.seen
        await scene.stop(b)
        assert followers == dict.fromkeys(OBJECTS, a.manager)
        assert twice == []


async def test_shard_is_not_released_while_a_thread_of_its_reconcile_runs():
    hold = ThreadHold()

    async def in_a_thread(operator: Copying, _: Secret, __: Context) -> None:
        if operator.manager is scene.all[0].manager:
            await asyncio.to_thread(hold.wait)

    async with peers(in_a_thread) as scene:
        a, b = await scene.move()
        await asyncio.sleep(GRACE)
        assert (cut := a.seen), "some reconciles are cancelled"
        assert a.coordinator.held.everything
        assert not b.seen
        hold.release()
        await asyncio.sleep(5)
        assert len(a.coordinator.held.numbers) == COUNT // 2
        assert b.seen == cut


async def test_late_write_of_a_task_is_fenced_after_its_shard_has_moved():
    tasks: dict[str, asyncio.Task[None]] = {}

    async def leave_something(operator: Copying, obj: Secret, _: Context) -> None:
        async def write_late() -> None:
            await asyncio.sleep(20)
            obj.metadata.labels["late"] = "yes"
            await operator.client.patch(obj)

        if obj.metadata.name not in tasks:
            tasks[obj.metadata.name] = asyncio.create_task(write_late())

    async with peers(leave_something) as scene:
        _, b = await scene.move()
        assert b.seen
        await asyncio.wait(tasks.values())
        fenced = {name for name, task in tasks.items() if isinstance(task.exception(), Fenced)}
        assert fenced == b.seen


async def test_replica_that_owns_shard_0_runs_unsharded_operators_and_leader_only_work():
    async with peers(shared_out=False) as scene:
        await scene.share("a", "b")
        await asyncio.sleep(11)
        (works,) = [each for each in scene.all if each.seen]
        (other,) = [each for each in scene.all if not each.seen]
        assert works.seen == set(OBJECTS)
        assert works.owned.find(0) is not None
        assert works.operator.ticks
        assert (works.operator.once, other.operator.once, other.operator.ticks) == (1, 0, 0)
        await scene.stop(works)
        assert works.operator.once == 0
        assert other.seen == set(OBJECTS)
        assert other.operator.once == 1


async def test_write_permit_is_granted_in_a_reconcile_and_refused_elsewhere_in_a_replica_without_shard_0():
    async def act(operator: Copying, _: Secret, ctx: Context) -> None:
        async with ctx.permit():
            await asyncio.sleep(0.1)
        await asyncio.to_thread(operator.manager.leadership.permit, seconds=1.0)

    async with peers(act) as scene:
        await scene.share("a", "b")
        (other,) = [each for each in scene.all if each.owned.find(0) is None]
        assert other.seen
        with pytest.raises(Fenced, match="does not lead"):
            other.manager.leadership.permit()
        made = {each["metadata"]["name"] for each in scene.cluster.client.list("configmaps", "default")}
        assert made >= set(OBJECTS)


@pytest.mark.parametrize("gates", [(), ("ShardedListAndWatch",)], ids=["old", "sharding"])
async def test_replica_caches_only_objects_and_children_of_its_shards(gates: tuple[str, ...]):
    async with peers(gates=gates) as scene:
        await scene.create("strangers", "another-ones", of="configmaps")
        (a,) = await scene.share("a")
        assert a.held == children_held(a) == set(OBJECTS)
        b, c = await scene.start("b", "c")
        assert_children_are_known(scene)
        for peer in scene.all:
            others = set[str]().union(*(each.held for each in scene.all if each is not peer))
            assert peer.held
            assert not peer.held & others
        assert a.held | b.held | c.held == set(OBJECTS)
        assert (b.held, c.held) == (b.seen, c.seen)
        assert not b.seen & c.seen
        theirs, left = b.seen, set(a.operator.left)
        for each in (a, c):
            each.operator.runs.clear()
        await scene.stop(b, seconds=10)
        assert a.seen | c.seen == theirs, "the other replicas reconcile its objects"
        assert_children_are_known(scene)
        assert set(a.operator.left) == left
        await scene.create("late")
        assert a.held | c.held == {*OBJECTS, "late"}
        assert not a.held & c.held
        await scene.delete(*OBJECTS, "late")
        assert a.held | c.held == set()


async def test_replica_caches_objects_of_other_shards_only_when_the_operator_declares_reads():
    read: list[object] = []
    found: set[str] = set()

    async def read_all(operator: Copying, obj: Secret, _: Context) -> None:
        first = ObjectKey("default", OBJECTS[0])
        for reading in (operator.client.list(Secret), operator.client.get(Secret, first)):
            try:
                read.append(await reading)
            except NotCached as error:
                read.append(str(error))
        if (await operator.client.get(Secret, obj.key)).metadata.uid == obj.metadata.uid:
            found.add(obj.metadata.name)

    async with peers(read_all) as scene:
        (a, b) = await scene.share("a", "b")
        (hint,) = {each for each in read if isinstance(each, str)}
        assert hint == (
            "Secret of other replicas (--shards) is not cached: declare reads = (Secret,) in the operator, "
            "or read it with client.uncached"
        )
        assert a.held != b.held
        assert_children_are_known(scene)
        assert found == set(OBJECTS), "each replica reads its own objects"
    read.clear()
    found.clear()
    async with peers(read_all, reads=(Secret,)) as scene:
        (a, b) = await scene.share("a", "b")
        assert {isinstance(each, str) for each in read} == {False}
        assert a.held == b.held == found == set(OBJECTS)
        assert not a.seen & b.seen


class Refusing(LocalWire):
    """HTTP wire to a server that forbids all requests under the path `refused`."""

    refused: ClassVar[str]

    async def answer(self, request: WireRequest) -> ApiResponse:
        if request.path.startswith(self.refused):
            raise StatusError(403, "Forbidden", "no")
        return await super().answer(request)


@pytest.mark.parametrize("kind", ["secrets", "configmaps"])
async def test_replica_reconciles_no_object_of_a_shard_before_objects_and_children_are_listed(kind: str):
    Refusing.refused = f"/api/v1/{kind}"
    async with peers() as scene:
        (a,) = await scene.share("a")
        (b,) = await scene.start("b", wire=Refusing)
        await asyncio.sleep(10)
        assert a.seen == set(OBJECTS)
        assert b.owned.find(0) is b.owned.find(1) is None, "the replica waits for the lists"
        await asyncio.sleep(KNOWN_WITHIN)
        assert any(map(b.owned.find, range(COUNT))), "the wait for the lists ends"
        assert not b.seen
        Refusing.refused = "nothing"
        await asyncio.sleep(40)
        assert b.seen == b.held != set()
        assert_children_are_known(scene)


LABEL = "test/shard"


def children_held(peer: Peer) -> set[str]:
    """Return the names of the ConfigMaps in the cache of the replica."""
    return {record.key.name for record in peer.manager.cache.lookup(ConfigMap).list()}


def child(scene: Peers, name: str) -> dict[str, Any]:
    return scene.cluster.client.peek("configmaps", "default", name)


def label_on(scene: Peers, name: str) -> str | None:
    return child(scene, name)["metadata"].get("labels", {}).get(LABEL)


async def relabel(scene: Peers, name: str, value: str | None) -> None:
    await scene.cluster.client.patch("configmaps", "default", name, {"metadata": {"labels": {LABEL: value}}})


def label_wanted(scene: Peers, name: str) -> str:
    return label_of(scene.cluster.client.peek("secrets", "default", name)["metadata"]["uid"])


def assert_children_are_known(scene: Peers) -> None:
    """Check that each child has its shard label, and each replica caches the children of its objects."""
    assert [label_on(scene, name) for name in OBJECTS] == [label_wanted(scene, name) for name in OBJECTS]
    assert [children_held(peer) for peer in scene.all] == [peer.held for peer in scene.all]


@pytest.mark.parametrize("value", [None, "", "xyz", "another's"])
async def test_changed_shard_label_of_a_child_is_restored_without_recreation(value: str | None):
    async with peers() as scene:
        await scene.share("a", "b", "c")
        before = [child(scene, name)["metadata"]["uid"] for name in OBJECTS]
        for name in OBJECTS:
            others = f"{int(label_wanted(scene, name), 16) ^ 0xFF:02x}"
            await relabel(scene, name, others if value == "another's" else value)
        await asyncio.sleep(5)
        assert_children_are_known(scene)
        assert [child(scene, name)["metadata"]["uid"] for name in OBJECTS] == before


async def test_children_without_shard_label_are_found_and_labelled_when_replicas_start():
    seen: dict[str, list[str]] = {}

    async def look(_: Copying, obj: Secret, ctx: Context) -> None:
        seen.setdefault(obj.metadata.name, [each.metadata.name for each in await ctx.children(ConfigMap)])

    async with peers() as scene:
        (alone,) = await scene.share("alone")
        await scene.stop(alone)
        for name in OBJECTS:
            await relabel(scene, name, None)
        scene.operator.act = staticmethod(look)  # type: ignore[assignment]
        await scene.start("a", "b")
        assert seen == {name: [name] for name in OBJECTS}
        assert_children_are_known(scene)
        events = scene.cluster.client.list("events", "default")
        assert {each["reason"] for each in events} <= {"Created", "LeaderElection"}


async def test_manager_with_sharding_disabled_keeps_shard_labels_of_children_and_adds_none():
    async with peers() as scene:
        (alone,) = await scene.share("alone")
        await scene.stop(alone)
        labelled = [child(scene, name) for name in OBJECTS]
        transport = Transport(
            LocalWire(scene.cluster), metrics=Metrics(), rng=random.Random(0), user_agent="x"
        )
        manager = Manager(
            transport, program=Program("test", "0"), metrics=Metrics(), rng=random.Random(0), identity="x"
        )
        add_controller(scene.operator(manager))
        stop = asyncio.Event()
        run = asyncio.create_task(manager.run(stop))
        await scene.create("late")
        await asyncio.sleep(5)
        assert [child(scene, name) for name in OBJECTS] == labelled
        assert label_on(scene, "late") is None
        stop.set()
        await run
        await transport.aclose()


@pytest.mark.parametrize("declares", [False, True])
async def test_ctx_list_of_sharded_children_fails_unless_the_operator_declares_reads(declares: bool):
    found: dict[str, object] = {}

    async def read(_: Copying, obj: Secret, ctx: Context) -> None:
        for name in ("strangers", "nowhere"):
            one = await ctx.find(ConfigMap, name)
            found[name] = None if one is None else one.metadata.name
        try:
            found["listed"] = {each.metadata.name for each in await ctx.list(ConfigMap)}
        except NotCached as error:
            found["listed"] = str(error)

    async with peers(read, **({"reads": (ConfigMap,)} if declares else {})) as scene:
        await scene.create("strangers", of="configmaps")
        a, b = await scene.share("a", "b")
        assert a.seen
        assert b.seen
        assert not a.seen & b.seen
        assert (found["strangers"], found["nowhere"]) == ("strangers", None)
        if declares:
            assert children_held(a) == children_held(b) >= {*OBJECTS, "strangers"}
            assert "strangers" in cast("set[str]", found["listed"])
        else:
            assert found["listed"] == (
                "ConfigMap of other replicas (--shards) is not cached: list the children of one object,"
                " declare reads = (ConfigMap,) in the operator, or read it with client.uncached"
            )
        assert [label_on(scene, name) for name in OBJECTS] == [label_wanted(scene, name) for name in OBJECTS]


async def again_when_told(_: Copying, __: Secret, error: Exception, ___: Context) -> Result:
    assert isinstance(error, Blocked)
    return Result(requeue_after=error.retry_after)


async def test_reconcile_with_ctx_refuse_taken_runs_again_after_30_seconds_when_the_name_is_not_watched():
    taken: set[str] = set()

    async def look(_: Copying, obj: Secret, ctx: Context) -> None:
        try:
            await ctx.refuse_taken(ConfigMap, obj.metadata.name)
        except Blocked:
            taken.add(obj.metadata.name)
        raise Blocked("Waiting", "for something else, before there is a child")

    async with peers(look, on_error=again_when_told) as scene:
        await scene.share("a", "b")
        await asyncio.sleep(1)
        await scene.create(*OBJECTS, of="configmaps")
        await asyncio.sleep(20)
        assert taken == set(), "no watch event reports the new ConfigMaps"
        await asyncio.sleep(11)
        assert taken == set(OBJECTS)
