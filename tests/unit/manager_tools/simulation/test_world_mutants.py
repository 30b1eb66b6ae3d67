"""Simulations find bugs that a test plants into the library or into an operator."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import orjson
import pytest

from controllers.example import parts, passwords, volumes
from controllers.main import OPERATORS
from controllers.petstore.keeper import Keeper
from controllers.petstore.pet import PetOperator
from manager.api import controller_reference
from manager.cache.informer import Informer
from manager.cache.store import Store
from manager.certificates import rotation
from manager.certificates.rotation import Rotation
from manager.certificates.store import SecretStore
from manager.client.client import Client
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
BEHIND = " than the server|never becomes calm"
TWO_LEAD = r"came while \S+ had the lease"

Plant = Callable[[pytest.MonkeyPatch], None]


def nothing(*_: Any, **__: Any) -> None:
    return None


async def nothing_awaited(*_: Any, **__: Any) -> None:
    return None


def replacing(place: Any, name: str, replacement: Any) -> Plant:
    """Return a function that replaces this attribute of `place` for one test."""
    return lambda patch: patch.setattr(place, name, replacement)


def without_fence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transport, "_permission", lambda _: nothing)
    patch.setattr(Transport, "fence", nothing)


def slow_release_without_time_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderElector, "release", lambda _: asyncio.sleep(60))
    patch.setattr("manager.process.manager.RELEASE_TIMEOUT", 120.0)


def replace_without_removal(patch: pytest.MonkeyPatch) -> None:
    original = Store.replace

    def replace(self: Store, namespace: str, listed: Any, version: int, **more: Any) -> Any:
        kept = {each.key: each for each in self if each.key not in listed}
        return original(self, namespace, {**kept, **listed}, version, **more)

    patch.setattr(Store, "replace", replace)


def effect_without_confirmation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Context, "confirm", nothing_awaited)
    patch.setattr(PetOperator, "take_back", nothing_awaited)


def informers_begin_with(leave: Callable[[], object]) -> Plant:
    original = Informer.run

    async def leave_and_run(self: Informer) -> None:
        leave()
        await original(self)

    return replacing(Informer, "run", leave_and_run)


def event_with_password(patch: pytest.MonkeyPatch) -> None:
    original = Context.token

    def token(self: Context, nbytes: int) -> str:
        made = original(self, nbytes)
        self.event("Made", f"The password is {made}")
        return made

    patch.setattr(Context, "token", token)


def owned_volumes(patch: pytest.MonkeyPatch) -> None:
    original = parts.claim_for

    def claim_for(metadata: Any, site: Any, *more: Any) -> None:
        original(metadata, site, *more)
        metadata.owner_references = [controller_reference(site, metadata)]

    for each in (passwords, volumes):
        patch.setattr(each, "claim_for", claim_for)
    for each in (passwords, parts):
        patch.setattr(each, "is_claimed_for", lambda *_: True)


async def remove_all_finalizers(_: Any, obj: Any, ctx: Context) -> None:
    obj.metadata.finalizers = []
    await ctx.patch()
    ctx.written()


async def write_and_log_the_key(self: SecretStore, material: Any, snapshot: Any) -> Any:
    rotation._log.info("written", key=material.key.decode())
    return await WRITE(self, material, snapshot)


async def apply_without_other_labels(self: Client, obj: Any, **more: Any) -> Any:
    applied = await APPLY(self, obj, **more)
    if others := {*applied.object.metadata.labels} - {*obj.metadata.labels}:
        body = orjson.dumps({"metadata": {"labels": dict.fromkeys(others)}})
        await self._send("PATCH", type(obj), obj.key, body, content_type=MERGE_PATCH)
    return applied


APPLY, WRITE = Client.apply, SecretStore.write

# The planted bug, the simulated operator, the expected violation, and the crashes or faults of the runs.
MUTANTS: dict[str, tuple[Plant, str, str, dict[str, Any]]] = {
    "no fence": (without_fence, "memcached", TWO_LEAD, {"crash": "freeze"}),
    "calls without fence": (
        replacing(Leadership, "held", lambda _: contextlib.AsyncExitStack()),
        "pet",
        f"CALL store .*{TWO_LEAD}",
        {"crash": "look"},
    ),
    "shard count not agreed": (
        replacing(ShardCountAgreement, "is_settled", lambda *_: True),
        "memcached",
        r"came while \S+ had shard",
        {"fault": "mode", "shards": 4},
    ),
    "deletion missed": (replace_without_removal, "memcached", BEHIND, {"fault": "compact"}),
    "stale effect": (effect_without_confirmation, "pet", "record of a deleted Pet still", {"crash": "stale"}),
    "old record": (replacing(Keeper, "_differs", lambda *_: False), "pet", "the record of Pet .* says", {}),
    "task left": (
        informers_begin_with(lambda: asyncio.ensure_future(asyncio.sleep(1e6))),
        "memcached",
        "has left tasks behind",
        {"fault": "stop"},
    ),
    "file left": (informers_begin_with(lambda: os.dup(2)), "foo", "files are left open", {}),
    "slow end": (
        slow_release_without_time_limit,
        "memcached",
        "does not end within 25 s",
        {"fault": "stop"},
    ),
    "password in an Event": (event_with_password, "wordpress", "contains a secret", {}),
    "volume deleted": (owned_volumes, "wordpress", "is gone, although it must be kept", {}),
    "CA signs too soon": (
        replacing(Rotation, "_may_sign", lambda *_: True),
        "pet",
        "would get no review .* certificate signed by unknown authority",
        {"fault": "bundle"},
    ),
    "key in the log": (
        replacing(SecretStore, "write", write_and_log_the_key),
        "pet",
        "a log line .* contains a secret",
        {"fault": "bundle"},
    ),
    "labels taken": (
        replacing(Client, "apply", apply_without_other_labels),
        "memcached",
        "took away labels spoilt=",
        {},
    ),
    "finalizers taken": (
        replacing(reconciler.ObjectReconciler, "_remove_finalizers", remove_all_finalizers),
        "pet",
        "took away finalizer",
        {},
    ),
}


def plans(operators: tuple[Any, ...], *, crash: str = "", **options: Any) -> Iterable[Plan]:
    """Return one plan per seed; with `crash`, return plans with exactly one crash, which has this type."""
    if not crash:
        return (plan_of(seed, operators, minutes=3, **options) for seed in itertools.count())
    life = tuple(
        Step(at=number * 20.0, act=act, kind=0, draw=0)
        for number, act in enumerate(("create", "change", "delete child", "delete", "create"))
    )
    lives = (Plan(seed, 1, life, ()) for seed in range(4))
    points = itertools.chain.from_iterable(crash_points(plan, operators) for plan in lives)
    return (each for each in points if each.crash_at is not None and each.crash_at[1] == crash)


@pytest.mark.parametrize("name", MUTANTS)
def test_simulation_reports_the_expected_violation_of_a_bug_planted_in_the_code(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    plant, operator, shown, options = MUTANTS[name]
    operators = (NAMES[operator],)
    plant(monkeypatch)
    outcomes = (
        run(each, operators, compare=False)
        for each in itertools.islice(plans(operators, **options), MOST_RUNS)
    )
    violations = next((each.violations for each in outcomes if each.violations), [])
    assert any(re.search(shown, each.what) for each in violations), violations
