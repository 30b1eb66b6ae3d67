"""Pets that are deleted but still cached, or deleted during a reconcile, leave no orphaned records."""

from __future__ import annotations

import pytest

from controllers.petstore.record import ADDED_AS
from manager.api import ObjectKey
from manager.kube.errors import Conflict, ConnectionLost, Invalid, NotFound
from petstore.embedded import EmbeddedStore
from tests.unit.controllers.fate import Fate
from tests.unit.controllers.petstore.world import THOR, TRON, ApiServer, Process, Stage

KEY = ObjectKey("default", "thor")


async def work(process: Process, *, rounds: int = 3) -> None:
    """Reconcile the Pet `rounds` times, and ignore errors of the API server."""
    for _ in range(rounds):
        try:
            await process.reconcile(KEY)
        except (Conflict, ConnectionLost, Invalid, NotFound):
            continue


@pytest.mark.parametrize("lost", [False, True])
async def test_pet_operator_never_reverts_a_record_when_its_cache_is_stale(
    server: ApiServer, store: EmbeddedStore, lost: bool
):
    process = Process(server, store.client, Fate())
    server.create(KEY.name, THOR)
    await process.settle(KEY)
    server.change(KEY, name="Thorbert")
    await process.settle(KEY)
    server.change(KEY, name="Thorsten", species="cat")
    await process.settle(KEY)
    for moment in server.history:
        process = Process(server, store.client, Fate(), at=moment)
        if lost:
            await store.client.delete([pet.id for pet in await store.pets()])
        await work(process)
        # If the cache shows the Pet without our finalizer, the operator waits until the cache is current.
        assert {pet.name for pet in await store.pets()} <= {"Thorsten"}, moment
        process.cache.catch_up()
        await process.settle(KEY)
        assert [pet.name for pet in await store.pets()] == ["Thorsten"], moment


async def one_that_vanishes(
    server: ApiServer, store: EmbeddedStore, *, before: int, replaced: bool, blow: str, behind: bool
) -> bool:
    """Delete a new Pet just before call `before` of its first reconcile; return whether that call exists."""
    fate = Fate()
    server.begin_anew()
    process = Process(server, store.client, fate)
    server.create(KEY.name, THOR)
    if behind:
        process.cache.hold_back()

    def vanish() -> None:
        server.vanish(KEY)
        if replaced:
            server.create(KEY.name, TRON)

    fate.meanwhile, fate.script = {before: vanish}, {before: blow}
    await work(process, rounds=1)
    came_too_late = bool(fate.meanwhile)
    fate.meanwhile.clear()
    await work(process)
    process.cache.catch_up()
    await process.settle(KEY)
    names = [pet.name for pet in await store.pets()]
    await store.client.delete([pet.id for pet in await store.pets()])
    if came_too_late:
        return False
    assert names == (["Tron"] if replaced else []), (before, blow, fate.passed)
    if replaced:
        assert "Tron" in server.pets[KEY]["metadata"]["annotations"][ADDED_AS]
    return True


@pytest.mark.parametrize("behind", [False, True], ids=["current cache", "stale cache"])
@pytest.mark.parametrize("replaced", [False, True], ids=["gone", "replaced"])
async def test_record_is_removed_when_its_pet_is_deleted_during_the_first_reconcile(
    server: ApiServer, store: EmbeddedStore, replaced: bool, behind: bool
):
    """Delete the Pet at each step of its first reconcile, optionally with a lost call or response."""
    for blow in ("", "lost before", "lost after"):
        steps = 0
        while await one_that_vanishes(
            server, store, before=steps, replaced=replaced, blow=blow, behind=behind
        ):
            steps += 1
        assert steps >= 3, blow


async def test_pet_operator_reads_the_pet_from_the_server_only_before_it_adds_a_record_again(stage: Stage):
    fate, process, store = stage.fate, stage.process, stage.store
    stage.create()
    await process.settle(KEY)
    assert "get" not in fate.passed
    await store.client.delete([pet.id for pet in await store.pets()])
    await process.settle(KEY)
    assert fate.passed.count("get") == 1
    assert [pet.name for pet in await store.pets()] == ["Thor"]


async def test_pets_are_not_treated_as_deleted_while_their_kind_is_not_served(stage: Stage):
    """Stop serving Pets just before the first status write of a Pet, as happens when a CRD is replaced."""
    fate, process, server, store = stage.fate, stage.process, stage.server, stage.store
    stage.create()

    def stop_serving() -> None:
        server.serves_pets = False

    step = 4
    fate.meanwhile = {step: stop_serving}
    with pytest.raises(NotFound):
        await process.reconcile(KEY)
    assert fate.passed[step:] == ["patch status"]
    (added,) = await store.pets()
    await store.client.delete([added.id])
    with pytest.raises(NotFound):
        await process.reconcile(KEY)  # the operator reads the Pet before it adds the record again
    assert fate.passed[-1] == "get"
    server.serves_pets = True
    await process.settle(KEY)
    assert len(await store.pets()) == 1


async def test_record_is_removed_when_its_deleted_pet_was_recreated_and_deleted_again(stage: Stage):
    fate, process, server, store = stage.fate, stage.process, stage.server, stage.store
    stage.create()

    def replace() -> None:
        server.vanish(KEY)
        server.create(KEY.name, TRON, finalizers=["pet.petstore.example.com/finalizer"])
        server.delete(KEY)

    fate.meanwhile, fate.script = {4: replace}, {4: "lost before"}
    with pytest.raises(ConnectionLost):
        await process.reconcile(KEY)
    assert len(await store.pets()) == 1
    await process.settle(KEY)
    assert (await store.pets(), server.pets) == ([], {})


async def test_reconcile_removes_its_new_record_when_the_pet_is_recreated_before_status_write(stage: Stage):
    """Deliver no watch events to the cache, because the process may end before they arrive."""
    fate, process, server, store = stage.fate, stage.process, stage.server, stage.store
    stage.create()
    process.cache.hold_back()

    def replace() -> None:
        server.vanish(KEY)
        server.create(KEY.name, TRON)

    fate.meanwhile = {4: replace}
    assert await process.reconcile(KEY) is None
    # The server refuses the writes because of the UID, so the operator reads the current Pet.
    assert fate.passed[4:7] == ["patch status", "patch status", "get"]
    assert await store.pets() == []
