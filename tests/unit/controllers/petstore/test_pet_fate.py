"""Faults between any two steps: no fault leaves a second record or an orphaned record."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeAlias

import pytest

from manager.api import ObjectKey
from manager.election.coordinator import Leadership
from manager.kube.errors import Fenced
from petstore.client import PetStoreClient
from petstore.embedded import EmbeddedStore
from tests.support.petstores import Faults, local_store
from tests.unit.controllers.fate import Died, Fate
from tests.unit.controllers.petstore.world import THOR, TRON, ApiServer, Process

# Actions of users; each action follows a call of the operator or the end of all reconciles.
Step: TypeAlias = Callable[[ApiServer], object]


def create(name: str, spec: dict[str, str]) -> Step:
    return lambda server: server.create(name, spec)


def change(pet: str, **spec: str) -> Step:
    return lambda server: server.change(key_of(pet), **spec)


def delete(name: str) -> Step:
    return lambda server: server.delete(key_of(name))


def key_of(name: str) -> ObjectKey:
    return ObjectKey("default", name)


STORIES: dict[str, list[Step]] = {
    "created": [create("a", THOR)],
    "renamed": [create("a", THOR), change("a", name="Thorbert", species="bird")],
    "renamed twice": [create("a", THOR), change("a", name="Thorbert"), change("a", name="Thor")],
    "deleted": [create("a", THOR), delete("a")],
    "renamed and deleted": [create("a", THOR), change("a", name="Thorbert"), delete("a")],
    "twins": [create("a", THOR), create("b", THOR)],
    "one twin is deleted": [create("a", THOR), create("b", THOR), delete("a")],
    "changed into a twin": [create("a", THOR), create("b", TRON), change("b", **THOR)],
}
# In haste, the store would get only the last content.
PATIENT = {"renamed twice", "changed into a twin"}


async def live(
    server: ApiServer, store: EmbeddedStore, fate: Fate, story: list[Step], *, patient: bool
) -> None:
    """Take each step of a story while reconciles run; if `patient`, only after all reconciles have ended."""
    process = Process(server, store.client, fate)
    left = list(story)
    while True:
        if left:
            left.pop(0)(server)
        work = asyncio.ensure_future(process.settle_all(list(server.pets)))
        try:
            if left and not patient:
                calls = len(fate.passed)
                while not work.done() and len(fate.passed) == calls:  # noqa: ASYNC110 - whichever comes first
                    await asyncio.sleep(0)
                while left and not work.done():
                    left.pop(0)(server)
                    await asyncio.sleep(0)
            await work
        except Died:
            process = Process(server, store.client, fate)
            continue
        if not left:
            break
    # Reconcile again after changes during a reconcile, as the queue does.
    while True:
        try:
            return await process.settle_all(list(server.pets))
        except Died:
            process = Process(server, store.client, fate)


async def assert_in_step(server: ApiServer, store: EmbeddedStore) -> None:
    wanted = sorted(
        (pet["status"]["id"], pet["spec"]["name"], pet["spec"]["species"]) for pet in server.pets.values()
    )
    assert sorted((pet.id, pet.name, pet.type.value) for pet in await store.pets()) == wanted
    assert len({identity for identity, *_ in wanted}) == len(wanted)


async def one_life(server: ApiServer, store: EmbeddedStore, story: str, script: dict[int, str]) -> Fate:
    fate, patient = Fate(script), story in PATIENT
    server.begin_anew()
    await live(server, store, fate, STORIES[story], patient=patient)
    try:
        await assert_in_step(server, store)
    except AssertionError as error:
        raise AssertionError(f"{story}, {patient=}, {script}: {fate.passed}\n{error}") from error
    # A new process changes nothing.
    fate.script = {}
    writes, calls = server.writes, len(fate.passed)
    await Process(server, store.client, fate).settle_all(list(server.pets))
    assert server.writes == writes
    assert set(fate.passed[calls:]) <= {"search"}
    await store.client.delete([pet.id for pet in await store.pets()])
    return fate


@pytest.mark.parametrize("story", STORIES)
async def test_pets_and_store_records_agree_after_one_failure_at_any_step(
    server: ApiServer, store: EmbeddedStore, story: str
):
    fate = await one_life(server, store, story, {})
    for step, what in enumerate(fate.passed):
        # A death before a step leaves the same state as a death after the previous step, and as a death after
        # a read. After a read, a lost answer looks the same as a lost request.
        blows = (
            ("lost before", "lost after", "died after") if what not in {"search", "get"} else ("lost after",)
        )
        for blow in blows:
            await one_life(server, store, story, {step: blow})


async def lease_lost_before(server: ApiServer, store: EmbeddedStore, step: int, story: list[Step]) -> bool:
    """Lose the lease just before the call with number `step`; return whether that call exists."""
    fate, leadership = Fate(), Leadership()
    server.begin_anew()
    calls: list[tuple[str, str, str]] = []

    def lose() -> None:
        leadership.ended("the lease is lost")
        calls.clear()

    fate.meanwhile = {step: lose}
    client = store.another_client(handled=lambda *call: calls.append(call[:3]), writing=leadership.held)
    process = Process(server, client, fate)
    for act in story:
        act(server)
        with contextlib.suppress(Fenced):
            await process.settle_all(list(server.pets))
    if fate.meanwhile:
        return False
    assert {kind for kind, *_ in calls} <= {"server_stream"}, (step, fate.passed, calls)
    return True


@pytest.mark.parametrize("story", ["renamed and deleted", "twins"])
async def test_pet_operator_changes_nothing_in_the_store_after_losing_the_lease(
    server: ApiServer, store: EmbeddedStore, story: str
):
    step = 0
    while await lease_lost_before(server, store, step, STORIES[story]):
        await store.client.delete([pet.id for pet in await store.pets()])
        step += 1
    assert step > 5


async def test_store_call_in_flight_is_cancelled_when_the_lease_is_lost(server: ApiServer):
    faults = Faults()
    async with local_store(faults=faults) as store:
        leadership, ended = Leadership(), []
        held = faults.hold("AddPets")
        client = PetStoreClient(
            str(store.server.address),
            timeout=20,
            writing=leadership.held,
            handled=lambda *call: ended.append(call[:3]),
        )
        async with client:
            process = Process(server, client, Fate())
            key = server.create("a", THOR)
            working = asyncio.ensure_future(process.reconcile(key))
            await held.reached.wait()
            leadership.ended("the lease is lost")
            with pytest.raises(Fenced, match="the lease is lost"):
                await working
        assert ended[-1] == ("unary", "AddPets", "Canceled")
        # The store notices the cancellation and abandons the call too.
        await held.given_up.wait()
        assert await store.pets() == []
