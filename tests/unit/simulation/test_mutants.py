"""That a simulation can fail: faults planted into the runtime and operators are found within some seeds."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from controllers.main import OPERATORS
from controllers.petstore.claims import Claims
from controllers.petstore.keeper import Keeper
from controllers.petstore.pet import PetOperator
from manager.api import is_controlled_by
from manager.cache.informer import Informer
from manager.cache.intake import Intake
from manager.cache.store import Store
from manager.controller.failure import Troubles
from manager.controller.queue import WorkQueue
from manager.controller.source import TickerSource
from manager.kube.transport import Transport
from manager.leader.candidacy import Observation
from manager.leader.leadership import Leadership
from manager.operator import running
from manager.operator.context import Context
from manager.operator.operator import Operator
from manager.simulation.seeds import Plan, crash_points, plan_of, run
from manager.simulation.workload import Step

pytestmark = pytest.mark.whole

NAMES = {each.name: each for each in OPERATORS}
SEEDS = 30

Patch = Callable[[pytest.MonkeyPatch], None]
MUTANTS: dict[str, tuple[str, str, Patch]] = {}


def mutant(operators: str, by: str = "") -> Callable[[Patch], Patch]:
    """One that shows in these operators; `by` that sort of crash points, and by seeds otherwise."""

    def register(patch: Patch) -> Patch:
        MUTANTS[patch.__name__] = operators, by, patch
        return patch

    return register


def nothing(*_: Any, **__: Any) -> None:
    return None


async def nothing_awaited(*_: Any, **__: Any) -> None:
    return None


@mutant("memcached", by="freeze")
def the_fence_is_not_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transport, "fenced", None)
    patch.setattr(Transport, "fence", nothing)


@mutant("pet", by="look")
def calls_outside_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leadership, "held", lambda _: contextlib.AsyncExitStack())


@mutant("memcached")
def a_list_forgets_no_deletions(patch: pytest.MonkeyPatch) -> None:
    original = Store.replace

    def without_removal(self: Store, namespace: str, listed: Any, version: int, **more: Any) -> Any:
        kept = {each.key: each for each in self if each.key not in listed}
        return original(self, namespace, {**kept, **listed}, version, **more)

    patch.setattr(Store, "replace", without_removal)


@mutant("memcached")
def watches_bring_no_deletions(patch: pytest.MonkeyPatch) -> None:
    original = Intake.event

    def without(self: Intake, kind: str, raw: Any) -> None:
        if kind != "DELETED":
            original(self, kind, raw)

    patch.setattr(Intake, "event", without)


@mutant("memcached,mysrv", by="refuse")
def what_fails_is_not_tried_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WorkQueue, "add_rate_limited", lambda *_, **__: 0.0)
    patch.setattr(Troubles, "_wait", nothing)


@mutant("memcached")
def what_changes_during_a_reconcile_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = WorkQueue.add

    def add(self: WorkQueue[Any], key: Any, **more: Any) -> Any:
        return None if key in self._in_progress else original(self, key, **more)

    patch.setattr(WorkQueue, "add", add)


@mutant("memcached", by="meddle")
def every_change_counts_as_an_own_write(patch: pytest.MonkeyPatch) -> None:
    def disregard(self: WorkQueue[Any], key: Any, _: Any) -> bool:
        item = self._items.get(key)
        return item is not None and item.due is None and self._items.pop(key) is item

    patch.setattr(WorkQueue, "disregard", disregard)


@mutant("memcached")
def a_lease_is_stale_as_soon_as_it_is_seen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Observation, "claimable", lambda *_: True)
    patch.setattr(Observation, "claimable_at", property(lambda _: 0.0))


@mutant("memcached,wordpress")
def changed_children_tell_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(running, "_owners_and_waiting", lambda *_: nothing)


@mutant("memcached")
def a_name_that_comes_free_is_no_news(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Operator, "waits_for", nothing)


@mutant("mysrv,foo")
def an_emptied_status_stays_empty(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(running, "status_emptied", lambda _: False)


@mutant("pet")
def a_pet_is_removed_without_its_record(patch: pytest.MonkeyPatch) -> None:
    async def remove(*_: Any) -> bool:
        return False

    patch.setattr(Keeper, "remove", remove)


@mutant("pet")
def the_finalizer_is_left_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Context, "ensure_finalizer", nothing_awaited)


@mutant("pet", by="stale")
def the_server_is_not_asked_before_an_effect(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Context, "confirm", nothing_awaited)
    patch.setattr(PetOperator, "take_back", nothing_awaited)


@mutant("pet")
def records_have_no_key(patch: pytest.MonkeyPatch) -> None:
    async def nobody(*_: Any) -> None:
        return None

    async def by_content(*_: Any) -> tuple[None, None]:
        return None, None

    patch.setattr(Keeper, "_by_key", nobody)
    patch.setattr(Keeper, "_by_content", by_content)
    patch.setattr(Claims, "id_of", lambda *_: "")


@mutant("pet")
def a_changed_pet_keeps_its_old_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Keeper, "_differs", lambda *_: False)


@mutant("memcached")
def a_status_is_written_before_the_pods_are_there(patch: pytest.MonkeyPatch) -> None:
    memcached = NAMES["memcached"]
    patch.setattr(memcached, "watches", ())
    patch.setattr(memcached, "sources", memcached.sources[:1])

    async def none(*_: Any, **__: Any) -> list[Any]:
        return []

    patch.setattr(Context, "list_metadata", none)
    patch.setattr(memcached, "on", lambda event: event.old is None)


@mutant("wordpress")
def a_password_is_made_anew_each_time(patch: pytest.MonkeyPatch) -> None:
    original = Context.apply

    async def apply(self: Context, child: Any, **more: Any) -> Any:
        child.metadata.annotations = {**child.metadata.annotations, "token": self.token(4)}
        return await original(self, child, **more)

    patch.setattr(Context, "apply", apply)


@mutant("memcached")
def what_others_spoil_is_left_alone(patch: pytest.MonkeyPatch) -> None:
    original = Context.apply

    async def apply(self: Context, child: Any, **more: Any) -> Any:
        found = await self.client.uncached.find(type(child), child.key)
        mine = found is not None and is_controlled_by(found.metadata, self.object)
        return found if mine else await original(self, child, **more)

    patch.setattr(Context, "apply", apply)


@mutant("memcached,wordpress")
def every_seventh_event_is_lost(patch: pytest.MonkeyPatch) -> None:
    original, numbers = Intake.event, itertools.count(1)

    def event(self: Intake, kind: str, raw: Any) -> None:
        if next(numbers) % 7:
            original(self, kind, raw)

    patch.setattr(Intake, "event", event)


@mutant("pet")
def a_requeue_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = WorkQueue.add

    def add(self: WorkQueue[Any], key: Any, *, after: float = 0.0, **more: Any) -> Any:
        return None if after else original(self, key, after=after, **more)

    patch.setattr(WorkQueue, "add", add)
    patch.setattr(TickerSource, "run", nothing_awaited)


@mutant("memcached")
def a_task_is_left_behind(patch: pytest.MonkeyPatch) -> None:
    original = Informer.run

    async def run_and_leave(self: Informer) -> None:
        asyncio.get_running_loop().create_task(asyncio.sleep(1e6), name="left")
        await original(self)

    patch.setattr(Informer, "run", run_and_leave)


def plans(operators: tuple[Any, ...], by: str) -> Iterable[Plan]:
    """Seeds, or all points of one sort in the life of one object of each kind."""
    if not by:
        return (plan_of(seed, operators, minutes=3) for seed in range(SEEDS))
    life = tuple(
        Step(at=number * 20.0, act=act, kind=kind, draw=kind)
        for number, act in enumerate(("create", "change", "delete child", "delete", "create"))
        for kind in range(len(operators))
    )
    lives = (Plan(seed, 1, life, ()) for seed in range(4))
    points = itertools.chain.from_iterable(crash_points(plan, operators) for plan in lives)
    return (each for each in points if each.crash_at is not None and each.crash_at[1] == by)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch):
    operators, by, plant = MUTANTS[name]
    plant(monkeypatch)
    chosen = tuple(NAMES[each] for each in operators.split(","))
    assert any(fails(plan, chosen) for plan in plans(chosen, by)), "it is not found"


def fails(plan: Plan, operators: tuple[Any, ...]) -> bool:
    try:
        return bool(run(plan, operators).violations)
    except Exception:  # noqa: BLE001 - to end with one is to be found
        return True


def test_twenty_faults_at_least_are_planted():
    assert len(MUTANTS) >= 20
