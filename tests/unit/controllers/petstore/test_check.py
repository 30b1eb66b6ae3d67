"""Pets that the periodic check of store records enqueues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from controllers.petstore.check import StoreCheck
from manager.api import ObjectKey
from petstore.client import Pet as Record
from petstore.embedded import EmbeddedStore
from petstore.errors import DeadlinePassed
from tests.support.petstores import pet as record
from tests.unit.controllers.petstore.world import ApiServer, Stage

NOW = "2026-01-01T00:00:00Z"


class Scene(Stage):
    """Reconciled Pets, and the periodic check of their store records."""

    async def settled(self, *names: str) -> list[ObjectKey]:
        keys = [self.create(name, name=name) for name in names]
        await self.process.settle_all(keys)
        return keys

    async def check(self, ask_for: Callable[[ObjectKey], None]) -> None:
        await StoreCheck(self.store.client, self.process.pets, ask_for, self.process.availability).check()

    async def asked_for(self) -> list[str]:
        """Return the names of the Pets that one check enqueues."""
        sent: list[str] = []
        await self.check(lambda key: sent.append(key.name))
        return sorted(sent)

    def id_of(self, key: ObjectKey) -> str:
        return str(self.server.pets[key]["status"]["id"])


@pytest.fixture
def scene(server: ApiServer, store: EmbeddedStore) -> Scene:
    return Scene(server, store)


async def test_store_check_enqueues_only_pets_with_a_changed_or_missing_record(scene: Scene):
    renamed, lost, right = await scene.settled("renamed", "lost", "right")
    foreign = [record("right"), record("right", idempotency_key="another cluster's")]
    await scene.store.client.add(foreign)
    assert await scene.asked_for() == []
    await scene.store.client.update([record("Loki", id=scene.id_of(renamed))])
    await scene.store.client.delete([scene.id_of(lost)])
    assert await scene.asked_for() == ["lost", "renamed"]
    await scene.process.settle_all([renamed, lost, right])
    assert await scene.asked_for() == []


async def test_store_check_does_not_enqueue_deleted_or_invalid_pets(scene: Scene):
    (going, impossible) = await scene.settled("going", "impossible")
    scene.server.delete(going)
    scene.server.change(impossible, birthday="0000-01-01T00:00:00Z")
    await scene.store.client.delete([scene.id_of(going), scene.id_of(impossible)])
    assert await scene.asked_for() == []


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"id": ""},
        {"id": "somebody wrote this"},
        {"conditions": []},
        {"conditions": [{"type": "Ready", "status": "False", "reason": "Lied", "lastTransitionTime": NOW}]},
        {"observedGeneration": 7},
    ],
    ids=["no status", "no id", "a wrong id", "no conditions", "a wrong condition", "another generation"],
)
async def test_store_check_enqueues_a_pet_whose_status_in_kubernetes_another_client_has_changed(
    scene: Scene, status: dict[str, Any]
):
    keys = await scene.settled("thor", "tron")
    before = scene.server.pets[keys[0]]["status"]
    scene.server.edit(keys[0], status=status or None)
    assert await scene.asked_for() == ["thor"]
    await scene.process.settle_all(keys)
    after = scene.server.pets[keys[0]]["status"]
    assert (after["id"], after["observedGeneration"]) == (before["id"], 1)
    assert {each["type"]: each["status"] for each in after["conditions"]} == {
        "Ready": "True",
        "StoreReachable": "True",
    }
    assert await scene.asked_for() == []
    assert len(await scene.store.pets()) == 2


@pytest.mark.virtual_time
@pytest.mark.parametrize(("pause", "ends"), [(0.15, False), (21.0, True)], ids=["slow", "stalled"])
async def test_store_check_times_out_only_when_no_record_arrives_within_the_timeout(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, pause: float, ends: bool
):
    async def search(**_: object) -> AsyncIterator[Record]:
        for number in range(200):
            await asyncio.sleep(pause)
            yield record(id=str(number))

    assert scene.store.client.timeout == 20
    monkeypatch.setattr(scene.store.client, "search", search)
    monkeypatch.setattr("controllers.petstore.check._AT_ONCE", 1000)
    if ends:
        with pytest.raises(DeadlinePassed):
            await scene.asked_for()
    else:
        assert await scene.asked_for() == []


@pytest.mark.parametrize("lost", [False, True], ids=["changed", "lost"])
async def test_store_check_yields_to_other_tasks_after_each_large_pet(scene: Scene, lost: bool):
    keys = await scene.settled(*(f"p{number}" for number in range(20)))
    if lost:
        await scene.store.client.delete([scene.id_of(key) for key in keys])
    for key in keys:
        scene.server.change(key, birthday="2020-01-01")
        scene.server.edit(key, metadata={"annotations": {"filler": "x" * 70_000}})
    turn, asked_in = 0, list[int]()

    async def others() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await scene.check(lambda _: asked_in.append(turn))
    task.cancel()
    assert len(set(asked_in)) == len(keys)


async def test_unreadable_store_record_is_repaired_when_it_belongs_to_a_pet_and_ignored_otherwise(
    server: ApiServer, store: EmbeddedStore
):
    plain = store.client
    (theirs,) = await plain.add([record()])
    unreadable = {theirs}

    async def around(method: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Call the store; clear the birthday of `unreadable` records; an update makes our record readable."""
        answer = await call()
        if method == "UpdatePets":
            unreadable.intersection_update({theirs})
        for found in answer if method == "SearchPets" else ():
            if found.id in unreadable:
                found.ClearField("birthday")
        return answer

    store.client = store.another_client(around=around)
    scene = Scene(server, store)
    key = await scene.created()
    ours = scene.id_of(key)
    unreadable.add(ours)
    assert await scene.asked_for() == ["thor"]
    await scene.process.settle(key)
    assert (scene.id_of(key), unreadable) == (ours, {theirs})
    unreadable.add(ours)
    await scene.delete(key)
    assert [pet.id async for pet in plain.search()] == [theirs]
