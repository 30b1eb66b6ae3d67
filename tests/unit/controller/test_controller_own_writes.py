"""Watch events that a controller skips, because its own writes have caused them.

The controller creates a pod for each Foo. Each test decides which events the cache gets, and when.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from manager.cache import Cache
from manager.controller import (
    Controller,
    ControllerOptions,
    KindSource,
    Request,
    Result,
    TerminalError,
    desired_state_changed,
    enqueue_object,
    enqueue_owner,
)
from manager.telemetry.metrics import Metrics
from tests.unit.cache.objects import Pod
from tests.unit.controller.doubles import Foo, Reconciler, Watched, offline_cache, owner, raw, turns

pytestmark = pytest.mark.virtual_time

Act = Callable[[Request], Awaitable[Result | None]]
SKIPPED = "operator_manager_reconciles_skipped_total"
OWNED = {"ownerReferences": [owner("f1")]}


class World:
    """Cache of Foos and of their pods, and controllers that use the cache."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.cache: Cache = offline_cache(self.metrics)
        self.controllers: list[Controller] = []
        self.foos, self.pods = Watched(self.cache, Foo), Watched(self.cache, Pod)
        self.foos.synced()
        self.pods.synced()
        self.version = 100

    def controller(self, act: Act, *, name: str = "foo", skips: bool = True) -> Reconciler:
        """Create a controller of Foos that owns pods; return its reconciler, which calls `act`."""
        reconciler = Reconciler(act)
        sources = [
            KindSource(self.cache.informer(Foo), enqueue_object, predicates=[desired_state_changed]),
            KindSource(self.cache.informer(Pod), enqueue_owner(Foo)),
        ]
        controller = Controller(
            name,
            reconciler,
            sources,
            options=ControllerOptions(max_concurrent_reconciles=2),
            metrics=self.metrics,
            rng=random.Random(1),
            primary=Foo.gvk,
            skips_own_writes=skips,
        )
        self.controllers.append(controller)
        return reconciler

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.foos.put("f1")
        tasks = [asyncio.create_task(controller.run()) for controller in self.controllers]
        await asyncio.sleep(0.001)  # virtual time: all tasks run until they wait, and no back-off ends
        yield
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    def stored(self, name: str = "p1", **metadata: object) -> bytes:
        """Return a pod of f1 with the next resource version, as the server stores it."""
        self.version += 1
        return raw(name, version=self.version, kind=Pod, **{**OWNED, **metadata})

    def watch(self, pod: bytes, kind: str = "ADDED") -> None:
        """Deliver a watch event for the pod."""
        self.pods.informer._sinks[0].event(kind, msgspec.Raw(pod))

    def listed_again(self, *pods: bytes) -> None:
        """Deliver a new list with these pods to the cache."""
        sink = self.pods.informer._sinks[0]
        sink.begin_list()
        for pod in pods:
            sink.list_item(msgspec.Raw(pod))
        sink.finish_list(self.version)

    def answered(self, pod: bytes, *, before: int | None = 0) -> None:
        """Deliver the response to our write, which replaced version `before` (0: created, None: unknown)."""
        self.cache.observe_write(Pod, pod, before=before)

    def skipped(self) -> float | None:
        return self.metrics.registry.get_sample_value(SKIPPED, {"controller": "foo"})


@pytest.fixture
async def world() -> World:
    return World()


def once(act: Callable[[], Awaitable[Result | None] | None]) -> Act:
    """Return a reconcile function that calls `act` on its first call only."""
    calls: list[Request] = []

    async def reconcile(request: Request) -> Result | None:
        calls.append(request)
        if len(calls) > 1:
            return None
        outcome = act()
        return None if outcome is None else await outcome

    return reconcile


Scene = tuple[str, str, str, int]
ONCE, AGAIN = 1, 2
# Events before a reconcile that writes, events during it, events after it, and the number of reconciles.
# `answer` belongs to our create, `update` and `patch` to writes of an existing object. `watch` and `list`
# deliver our own state (`ours`), or a later one by another writer (`others`).
SCENES: dict[str, Scene] = {
    "watch event after the response": ("", "answer", "watch ours", ONCE),
    "watch event before the response": ("", "watch ours, answer", "", ONCE),
    "lost response": ("", "watch ours", "", AGAIN),
    "foreign change before the response": ("", "watch ours, watch others, answer", "", AGAIN),
    "foreign change after the response": ("", "answer, wait, watch ours, watch others", "", AGAIN),
    "foreign change after the reconcile": ("", "answer", "watch ours, watch others", AGAIN),
    "deletion after the response": ("", "answer, delete", "", AGAIN),
    "patch, which may hide a foreign change": ("watch first", "patch", "", AGAIN),
    "update of the cached version": ("watch first", "update", "", ONCE),
    # A reader that bypasses the cache may overwrite changes that the cache has not delivered yet.
    "update of a later version than the cached one": ("watch first, change", "update", "", AGAIN),
    "new list with our state": ("", "list ours, answer", "list ours", ONCE),
    "new list with a foreign state": ("", "list others, answer", "", AGAIN),
    "reconcile fails after its write": ("", "answer, fail", "", AGAIN),
    # The cache also delivers the deletion of the other object, which is not our write.
    "object replaces another object of its name": ("watch namesake", "answer", "", AGAIN),
}


@pytest.mark.parametrize(("before", "within", "after", "calls"), SCENES.values(), ids=SCENES)
async def test_controller_skips_only_watch_events_caused_by_writes_of_the_same_reconcile(
    world: World, before: str, within: str, after: str, calls: int
):
    known = {"first": world.stored(), "namesake": world.stored(uid="uid-of-the-first")}
    read = world.version if "change" in before else world.version - 1

    async def happens(what: str) -> None:
        for act, _, pod in (each.partition(" ") for each in what.split(", ") if each):
            match act:
                case "watch":
                    world.watch(known[pod], "MODIFIED" if pod == "others" else "ADDED")
                    await turns()
                case "list":
                    world.listed_again(known[pod])
                case "answer":
                    world.answered(known["ours"])
                case "update" | "patch":
                    world.answered(known["ours"], before=read if act == "update" else None)
                case "delete":
                    world.watch(world.stored(), "DELETED")
                case "fail":
                    raise TerminalError("no retry follows")
                case "wait":
                    await asyncio.sleep(1)

    await happens(before)
    known |= {"ours": world.stored(), "others": world.stored(labels={"by": "others"})}
    reconciler = world.controller(once(lambda: happens(within)))
    async with world.running():
        await asyncio.sleep(2)
        assert len(reconciler.names) == 1 or not after
        await happens(after)
        await turns()
    assert reconciler.names == ["f1"] * calls
    if calls == ONCE and "watch ours" in within + after:
        assert world.skipped() == 1


@pytest.mark.parametrize("skips", [True, False])
async def test_controller_with_skips_own_writes_skips_events_of_objects_it_created(world: World, skips: bool):
    async def create() -> None:
        async with asyncio.TaskGroup() as group:
            for name in ("p1", "p2", "p3"):
                group.create_task(write(name))

    async def write(name: str) -> None:
        world.answered(world.stored(name))

    reconciler = world.controller(once(create), skips=skips)
    async with world.running():
        await asyncio.sleep(1)
    assert reconciler.names == ["f1"] * (1 if skips else 2)
    assert (world.skipped() == 0) is not skips


async def test_controller_reconciles_an_object_after_another_controller_created_its_pod(world: World):
    async def create() -> None:
        await asyncio.sleep(1)
        world.answered(world.stored())

    writer = world.controller(once(create), name="writer")
    other = world.controller(once(lambda: None), name="other")
    async with world.running():
        await asyncio.sleep(2)
    assert writer.names == ["f1"]
    assert other.names == ["f1", "f1"]


async def test_controller_reconciles_the_owner_of_a_pod_created_by_reconcile_of_another_object(world: World):
    """Run two workers: while one reconciles f1, the other reconciles f2 and creates a pod of f1."""
    began = asyncio.Event()

    async def act(request: Request) -> None:
        if request.name == "f2":
            world.answered(world.stored())
        elif not began.is_set():
            began.set()
            await asyncio.sleep(10)

    reconciler = world.controller(act)
    async with world.running():
        await began.wait()
        world.foos.put("f2")
        await asyncio.sleep(20)
    assert reconciler.names == ["f1", "f2", "f1"]
