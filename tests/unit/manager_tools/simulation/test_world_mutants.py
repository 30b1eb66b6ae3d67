"""Sensitivity of simulations: some seeds find the faults planted into the runtime and operators."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from controllers.example import parts, passwords, volumes
from controllers.main import OPERATORS
from controllers.petstore.keeper import Keeper
from controllers.petstore.pet import PetOperator
from manager.api import controller_reference
from manager.cache.informer import Informer
from manager.cache.sink import Sink
from manager.cache.store import Store
from manager.certificates import rotation
from manager.certificates.rotation import Rotation
from manager.certificates.store import SecretStore
from manager.client import client
from manager.client.write import MERGE_PATCH
from manager.election.coordinator import Leadership
from manager.election.elector import LeaderElector, ShardCountAgreement
from manager.kube.transport import Transport
from manager.operator import reconciler
from manager.operator.context import Context
from manager_tools.simulation.plan import Plan, Step, plan_of
from manager_tools.simulation.seeds import crash_points, run

pytestmark = pytest.mark.whole

NAMES = {each.name: each for each in OPERATORS}
MOST_RUNS = 60

NOT_FRESH = "not as a fresh install has it: "
TWO_LEAD = r"came while \S+ had the lease"

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutant:
    """A fault to plant, in which operators it shows, and by what.

    `by` is that sort of crash points, and else it is seeds, with no other `fault` if there is one. `took` is
    the number of runs that it took when it was last looked at: another one whenever anything draws anew.
    With `shards`, replicas share the objects.
    """

    plant: Plant
    operators: tuple[Any, ...]
    shows: str
    took: int
    by: str = ""
    fault: str | None = None
    shards: int = 0

    def plans(self) -> Iterable[Plan]:
        """Seeds, or all points of one sort in the life of one object of each kind."""
        if not self.by:
            seeds = itertools.count()
            return (
                plan_of(each, self.operators, minutes=3, fault=self.fault, shards=self.shards)
                for each in seeds
            )
        life = tuple(
            Step(at=number * 20.0, act=act, kind=kind, draw=kind)
            for number, act in enumerate(("create", "change", "delete child", "delete", "create"))
            for kind in range(len(self.operators))
        )
        lives = (Plan(seed, 1, life, ()) for seed in range(4))
        points = itertools.chain.from_iterable(crash_points(plan, self.operators) for plan in lives)
        return (each for each in points if each.crash_at is not None and each.crash_at[1] == self.by)


MUTANTS: dict[str, Mutant] = {}


def mutant(operators: str, shows: str, **more: Any) -> Callable[[Plant], Plant]:
    """Register a function that plants a fault."""

    def register(plant: Plant) -> Plant:
        chosen = tuple(NAMES[each] for each in operators.split(","))
        MUTANTS[plant.__name__] = Mutant(plant, chosen, shows, **more)
        return plant

    return register


def nothing(*_: Any, **__: Any) -> None:
    return None


async def nothing_awaited(*_: Any, **__: Any) -> None:
    return None


@mutant("memcached", TWO_LEAD, by="freeze", took=1)
def the_fence_is_not_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transport, "_permission", lambda _: nothing)
    patch.setattr(Transport, "fence", nothing)


@mutant("memcached", r"came while \S+ had shard", fault="mode", shards=4, took=2)
def nobody_looks_into_how_many_shards_the_work_is_divided(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShardCountAgreement, "is_settled", lambda *_: True)


@mutant("pet", "CALL store .*" + TWO_LEAD, by="look", took=3)
def calls_outside_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leadership, "held", lambda _: contextlib.AsyncExitStack())


@mutant("memcached", " than the server|it never becomes calm", fault="compact", took=1)
def a_list_forgets_no_deletions(patch: pytest.MonkeyPatch) -> None:
    original = Store.replace

    def without_removal(self: Store, namespace: str, listed: Any, version: int, **more: Any) -> Any:
        kept = {each.key: each for each in self if each.key not in listed}
        return original(self, namespace, {**kept, **listed}, version, **more)

    patch.setattr(Store, "replace", without_removal)


@mutant("memcached", " than the server|it never becomes calm", fault="skips", took=1)
def a_change_of_an_unknown_object_is_ignored(patch: pytest.MonkeyPatch) -> None:
    original = Sink.event

    def event(self: Sink, kind: str, raw: Any) -> None:
        if kind != "MODIFIED" or self.store.records.get(self.decoder.look(raw).key) is not None:
            original(self, kind, raw)

    patch.setattr(Sink, "event", event)


@mutant("pet", "the record of a deleted Pet still exists", by="stale", took=5)
def the_server_is_not_asked_before_an_effect(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Context, "confirm", nothing_awaited)
    patch.setattr(PetOperator, "take_back", nothing_awaited)


@mutant("pet", "the record of Pet .* says", took=4)
def a_changed_pet_keeps_its_old_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Keeper, "_differs", lambda *_: False)


def informers_begin_with(patch: pytest.MonkeyPatch, leave: Callable[[], object]) -> None:
    original = Informer.run

    async def leave_and_run(self: Informer) -> None:
        leave()
        await original(self)

    patch.setattr(Informer, "run", leave_and_run)


@mutant("memcached", "has left tasks behind", fault="stop", took=1)
def a_task_is_left_behind(patch: pytest.MonkeyPatch) -> None:
    informers_begin_with(patch, lambda: asyncio.ensure_future(asyncio.sleep(1e6)))


@mutant("foo", "files are left open", took=1)
def a_file_is_left_open(patch: pytest.MonkeyPatch) -> None:
    informers_begin_with(patch, lambda: os.dup(2))


@mutant("memcached", "does not end within 25 s", fault="stop", took=1)
def who_is_told_to_end_takes_a_minute(patch: pytest.MonkeyPatch) -> None:
    original = LeaderElector.release

    async def release(self: LeaderElector) -> None:
        await asyncio.sleep(60)
        await original(self)

    patch.setattr(LeaderElector, "release", release)


@mutant("wordpress", "tells a secret", took=1)
def an_event_tells_a_password(patch: pytest.MonkeyPatch) -> None:
    original = Context.token

    def token(self: Context, nbytes: int) -> str:
        made = original(self, nbytes)
        self.event("Made", f"The password is {made}")
        return made

    patch.setattr(Context, "token", token)


@mutant("wordpress", "is gone, which was to stay", took=4)
def a_volume_goes_with_its_site(patch: pytest.MonkeyPatch) -> None:
    original = parts.claim_for

    def claim_for(metadata: Any, site: Any, *more: Any) -> None:
        original(metadata, site, *more)
        metadata.owner_references = [controller_reference(site, metadata)]

    for each in (passwords, volumes):
        patch.setattr(each, "claim_for", claim_for)
    for each in (passwords, parts):
        patch.setattr(each, "is_claimed_for", lambda *_: True)


@mutant("pet", "would get no review .* certificate signed by unknown authority", fault="bundle", took=1)
def a_new_ca_signs_before_every_server_has_heard_of_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rotation, "_may_sign", lambda *_: True)


@mutant("pet", "tells a secret", fault="bundle", took=1)
def a_log_line_tells_a_key(patch: pytest.MonkeyPatch) -> None:
    original = SecretStore.write

    async def write(self: SecretStore, material: Any, snapshot: Any) -> Any:
        rotation._log.info("written", key=material.key.decode())
        return await original(self, material, snapshot)

    patch.setattr(SecretStore, "write", write)


@mutant("pet", "took away finalizer", took=1)
def the_end_of_a_cleanup_takes_all_finalizers(patch: pytest.MonkeyPatch) -> None:
    async def release(_: Any, obj: Any, ctx: Context) -> None:
        obj.metadata.finalizers = []
        await ctx.patch()
        ctx.written()

    patch.setattr(reconciler.ObjectReconciler, "_remove_finalizers", release)


@mutant("memcached", "took away labels spoilt=", took=1)
def children_keep_no_labels_but_ours(patch: pytest.MonkeyPatch) -> None:
    original = client.Client.apply

    async def apply(self: client.Client, obj: Any, **more: Any) -> Any:
        applied = await original(self, obj, **more)
        others = {*applied.object.metadata.labels} - {*obj.metadata.labels}
        if others:
            body = orjson.dumps({"metadata": {"labels": dict.fromkeys(others)}})
            await self._send("PATCH", type(obj), obj.key, body, content_type=MERGE_PATCH)
        return applied

    patch.setattr(client.Client, "apply", apply)


@pytest.mark.parametrize("name", MUTANTS)
def test_simulation_finds_planted_mutant(name: str, monkeypatch: pytest.MonkeyPatch):
    planted = MUTANTS[name]
    planted.plant(monkeypatch)
    runs, violations = found(planted)
    assert any(re.search(planted.shows, each) for each in violations), (runs, violations)


def found(planted: Mutant) -> tuple[int, list[str]]:
    """In which run the first violations are, and these."""
    runs = 0
    for runs, plan in enumerate(itertools.islice(planted.plans(), MOST_RUNS), start=1):
        outcome = run(plan, planted.operators, compare=planted.shows.startswith(NOT_FRESH))
        if outcome.violations:
            return runs, [each.what for each in outcome.violations]
    return runs, []
