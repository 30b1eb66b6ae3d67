"""Reconciles of a Pet and of its record in the store."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from controllers.petstore.pet import PetOperator
from controllers.petstore.record import ADDED_AS
from petstore.client import Pet as Record
from petstore.client import PetStoreError, PetType
from petstore.embedded import embedded_store
from tests.support.petstores import pet
from tests.unit.controllers.petstore.world import ApiServer, FatefulStore, Stage

FINALIZER, (OLD_FINALIZER,) = PetOperator.finalizer, PetOperator.former_finalizers


@pytest.fixture
async def keyless(server: ApiServer) -> AsyncIterator[Stage]:
    async with embedded_store(ignore_idempotency_keys=True) as store:
        yield Stage(server, store)


@pytest.fixture
async def keyed(server: ApiServer) -> AsyncIterator[Stage]:
    async with embedded_store() as store:
        yield Stage(server, store)


async def test_new_or_changed_pet_causes_few_api_writes_and_store_calls(stage: Stage):
    key = stage.create()
    assert await stage.process.reconcile(key) is None
    # The first record shows whether the store supports idempotency keys.
    assert stage.fate.passed == ["patch metadata", "search", "add", "search", "patch status"]
    pet = stage.pet(key)
    assert pet.metadata.finalizers == [FINALIZER]
    assert pet.metadata.annotations[ADDED_AS] == '{"name":"Thor","type":"dog","birthday":"2021-04-01"}'
    (record,) = await stage.store.pets()
    assert (pet.status.id, pet.status.observed_generation) == (record.id, 1)
    assert stage.says(key, "Ready") == ("True", "InStore")
    assert stage.says(key, "StoreReachable") == ("True", "Answered")
    assert stage.process.events.reasons == [("thor", "Added")]
    stage.fate.passed.clear()
    second = stage.create("second")
    assert await stage.process.reconcile(second) is None
    # A store with keys needs no search, because no earlier record can belong to this Pet.
    searches = [] if stage.process.store.knows_keys else ["search"]
    assert stage.fate.passed == ["patch metadata", *searches, "add", "patch status"]
    # A change of the Pet updates its record.
    await stage.delete(second)
    stage.server.change(key, name="Thorbert", species="bird", birthday="2019-12-31")
    stage.restart()
    await stage.process.settle(key)
    (changed,) = await stage.store.pets()
    assert (changed.id, changed.name, changed.type) == (record.id, "Thorbert", PetType.BIRD)
    assert changed.birthday == datetime.date(2019, 12, 31)
    assert stage.process.events.reasons == [("thor", "Updated")]


async def test_reconcile_restores_a_changed_or_deleted_store_record(stage: Stage):
    key = await stage.created()
    (record,) = await stage.store.pets()
    wrong = pet("Loki", PetType.REPTILE, datetime.date(1, 1, 1), id=record.id)
    await stage.store.client.update([wrong])
    await stage.process.settle(key)
    assert [(pet.id, pet.name) for pet in await stage.store.pets()] == [(record.id, "Thor")]
    await stage.store.client.delete([record.id])
    await stage.process.settle(key)
    assert await stage.names() == ["Thor"]
    assert [reason for _, reason in stage.process.events.reasons] == ["Added", "Restored", "Restored"]


@pytest.mark.parametrize("finalizers", [[], [OLD_FINALIZER]], ids=["new", "of the former operator"])
async def test_pet_adopts_an_equal_record_that_has_no_idempotency_key(keyed: Stage, finalizers: list[str]):
    if finalizers:
        await keyed.process.settle(keyed.create("first", name="Loki"))
        assert keyed.store.client.knows_keys
    (before,) = await keyed.store.client.add([pet()])
    key = await keyed.created(finalizers=finalizers)
    assert keyed.pet(key).status.id == before
    keys = {record.id: record.idempotency_key for record in await keyed.store.pets()}
    assert keys[before] == keyed.pet(key).metadata.uid
    assert keyed.process.events.reasons[-1] == ("thor", "Adopted")


async def test_record_with_the_idempotency_key_of_another_pet_is_never_changed(keyed: Stage):
    theirs = pet(idempotency_key="theirs")
    (before,) = await keyed.store.client.add([theirs])
    key = await keyed.created()
    assert keyed.pet(key).status.id != before
    # Another client writes that record's id into the status, and then deletes the Pet.
    keyed.server.edit(key, status={"id": before})
    keyed.server.change(key, name="Thorbert")
    await keyed.process.settle(key)
    assert keyed.pet(key).status.id != before
    keyed.server.edit(key, status={"id": before})
    await keyed.delete(key)
    assert [pet.id for pet in await keyed.store.pets()] == [before]


async def test_older_of_two_pets_with_the_same_record_id_keeps_the_record(keyless: Stage):
    older, younger = keyless.create("older"), keyless.create("younger", name="Loki")
    await keyless.process.settle(older)
    await keyless.process.settle(younger)
    identity = keyless.pet(older).status.id
    keyless.server.edit(younger, status={"id": identity})
    await keyless.process.settle(younger)
    assert await keyless.names() == ["Loki", "Thor"]
    assert keyless.pet(younger).status.id != identity
    keyless.server.edit(younger, status={"id": identity})
    await keyless.delete(younger)
    assert identity in {pet.id for pet in await keyless.store.pets()}


async def test_record_without_idempotency_key_gets_a_key_when_the_store_supports_keys(keyed: Stage):
    key = await keyed.created()
    (record,) = await keyed.store.pets()
    # The same state as with a store that does not support keys.
    await keyed.store.client.delete([record.id])
    (identity,) = await keyed.store.client.add([pet()])
    keyed.server.edit(key, status={"id": identity})
    keyed.restart()
    await keyed.process.settle(key)
    (record,) = await keyed.store.pets()
    assert (record.id, record.idempotency_key) == (identity, keyed.pet(key).metadata.uid)
    assert keyed.process.events.reasons == []


async def test_pet_keeps_its_record_when_its_finalizer_and_status_were_removed(keyed: Stage):
    key = await keyed.created()
    identity = keyed.pet(key).status.id
    keyed.server.edit(key, metadata={"finalizers": None}, status=None)
    keyed.server.change(key, name="Thorbert")
    await keyed.process.settle(key)
    assert [(pet.id, pet.name) for pet in await keyed.store.pets()] == [(identity, "Thorbert")]
    assert keyed.pet(key).metadata.finalizers == [FINALIZER]


async def test_deleted_pet_removes_only_its_own_record_when_another_record_has_equal_values(keyless: Stage):
    key = keyless.create()
    keyless.fate.script = {2: "lost after"}
    await keyless.process.reconcile(key)
    assert keyless.fate.passed[2] == "add"
    assert keyless.pet(key).status.id is None
    (mine,) = await keyless.store.pets()
    (other,) = await keyless.store.client.add([pet()])
    await keyless.delete(key)
    assert [pet.id for pet in await keyless.store.pets()] == [other]
    assert mine.id != other


async def test_deletion_of_a_pet_removes_its_record_and_own_finalizer_but_no_foreign_finalizer(stage: Stage):
    key = await stage.created(finalizers=["example.com/theirs", OLD_FINALIZER])
    assert stage.pet(key).metadata.finalizers == ["example.com/theirs", FINALIZER]
    await stage.delete(key)
    assert await stage.store.pets() == []
    assert stage.pet(key).metadata.finalizers == ["example.com/theirs"]
    # The status of the remaining object says that the record is removed.
    assert stage.pet(key).status.id is None
    assert stage.says(key, "Ready") == ("False", "Removed")
    assert stage.says(key, "StoreReachable") == ("True", "Answered")
    assert stage.process.events.reasons[-1] == ("thor", "Removed")
    calls = len(stage.fate.passed)
    await stage.process.settle(key)
    assert len(stage.fate.passed) == calls


@pytest.mark.parametrize(
    ("name", "record"),
    [("Thor", pet()), ("\N{EM SPACE}", pet("Loki"))],
    ids=["usual name", "name that the store refuses"],
)
async def test_deletion_of_a_pet_with_the_finalizer_of_the_former_operator_removes_its_record(
    stage: Stage, name: str, record: Record
):
    # Only the id identifies the record of this Pet.
    (identity,) = await stage.store.client.add([record])
    key = stage.create(name=name, finalizers=[OLD_FINALIZER])
    stage.server.edit(key, status={"id": identity})
    await stage.delete(key)
    assert stage.server.pets == {}
    assert await stage.store.pets() == []


async def test_deleted_pet_leaves_no_record_when_a_delayed_add_reaches_the_store(keyed: Stage):
    """Let an add request of the dead process reach the store after the new process searched for records."""
    key = keyed.create()
    await keyed.meet(key, {"add": "died before"})
    keyed.server.delete(key)
    uid = keyed.pet(key).metadata.uid
    hold = keyed.fate.hold("search")
    working = asyncio.ensure_future(keyed.process.settle(key))
    await hold.reached.wait()
    late = pet(idempotency_key=uid)
    await keyed.store.client.add([late])
    hold.released.set()
    await working
    assert await keyed.store.pets() == []


@pytest.mark.parametrize("impossible", ["0000-06-01T00:00:00Z", "0000-06-01"])
async def test_invalid_birthday_is_reported_until_the_birthday_changes(stage: Stage, impossible: str):
    key = stage.create(birthday=impossible)
    assert await stage.process.reconcile(key) is None
    assert stage.says(key, "Ready") == ("False", "InvalidBirthday")
    assert "spec.birthday" in stage.condition(key, "Ready").message
    writes = stage.server.writes
    assert await stage.process.reconcile(key) is None
    assert stage.server.writes == writes
    assert stage.process.events.reasons == [("thor", "InvalidBirthday")]
    stage.server.change(key, birthday="2021-04-01")
    await stage.process.settle(key)
    assert stage.says(key, "Ready") == ("True", "InStore")
    # A Pet whose birthday becomes invalid again keeps its record until its deletion.
    stage.server.change(key, birthday=impossible)
    await stage.process.settle(key)
    assert await stage.names() == ["Thor"]
    await stage.delete(key)
    assert (await stage.store.pets(), stage.server.pets) == ([], {})


async def test_ready_condition_names_the_field_that_the_store_refuses(stage: Stage):
    key = stage.create(name="\N{EM SPACE}")  # an API server with an older CRD accepts it
    assert await stage.process.reconcile(key) is None
    assert stage.says(key, "Ready") == ("False", "InvalidPet")
    assert stage.condition(key, "Ready").message == "spec.name: must not be blank"
    await stage.delete(key)
    assert stage.server.pets == {}


async def test_store_failure_is_logged_once_for_all_pets(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    async def fail(self: object, **filters: object) -> AsyncIterator[None]:
        raise PetStoreError("its disk is broken")
        yield  # makes this function a generator

    monkeypatch.setattr(FatefulStore, "search", fail)
    keys = [stage.create(f"pet-{number}") for number in range(20)]
    with capture_logs() as lines:
        for key in keys:
            await stage.retried_after(key)
    assert [(line["event"], line["error"]) for line in lines] == [
        ("the pet store failed", "its disk is broken")
    ]
    assert {stage.says(key, "Ready") for key in keys} == {("False", "StoreFailed")}
    with capture_logs() as lines:
        for key in keys:
            stage.process.claims.begin(stage.pet(key))
            stage.server.vanish(key)
            await stage.retried_after(key)
    assert [(line["event"], line["error"]) for line in lines] == [
        ("cannot remove the pet of a deleted Pet object from the store", "its disk is broken")
    ]


async def test_reconcile_reports_an_unreachable_store_once_and_backs_off(stage: Stage):
    key = await stage.created()
    stage.process.events.told.clear()
    delays = []
    writes = stage.server.writes
    for _ in range(9):
        stage.fate.script = {len(stage.fate.passed): "lost before"}
        delays.append(await stage.retried_after(key))
    assert delays[:6] == sorted(delays[:6])
    assert 0.4 < delays[0] < 0.7
    assert 25 < delays[-1] <= 30
    assert stage.server.writes == writes + 1
    assert stage.says(key, "StoreReachable") == ("False", "NoAnswer")
    assert stage.says(key, "Ready") == ("Unknown", "StoreUnreachable")
    assert stage.process.events.reasons == [("thor", "StoreUnreachable")]

    # Ready is False, not Unknown, when a change has not reached the store.
    stage.server.change(key, name="Thorbert")
    stage.fate.script = {len(stage.fate.passed): "lost before"}
    await stage.process.reconcile(key)
    assert stage.says(key, "Ready") == ("False", "StoreUnreachable")

    stage.fate.script = {}
    await stage.process.settle(key)
    assert stage.says(key, "StoreReachable") == ("True", "Answered")
    reasons = [reason for _, reason in stage.process.events.reasons]
    assert reasons.count("StoreUnreachable") == 1
    assert reasons.count("StoreReachable") == 1

    stage.server.delete(key)
    stage.fate.script = {len(stage.fate.passed): "lost before"}
    await stage.process.reconcile(key)
    message = stage.condition(key, "Ready").message
    assert message.startswith("is being deleted; waits for the pet store at ")
    assert message.endswith(", which does not answer; it is asked again until it does")


async def test_reconcile_sends_no_request_to_a_store_that_is_down(stage: Stage):
    key = stage.create()
    stage.process.availability.down = True
    # Thousands of Pets do not need a timer each: `StoreAvailability` requests those that wait.
    assert await stage.process.reconcile(key) is None
    assert stage.says(key, "StoreReachable") == ("False", "NoAnswer")
    assert stage.process.availability.is_waiting(key)
    assert stage.fate.passed == ["patch status"]


@pytest.mark.parametrize("deleted", [False, True])
async def test_pet_finds_its_record_when_renamed_before_its_status_has_the_record_id(
    keyless: Stage, deleted: bool
):
    """Kill the process before the status has the id, then rename or delete the Pet."""
    key = keyless.create()
    await keyless.meet(key, {"patch status": "died before"})
    keyless.server.change(key, name="Thorbert")
    await keyless.meet(key, {"update": "died after"})
    if deleted:
        keyless.server.delete(key)
    else:
        keyless.server.change(key, name="Thorvald")
    await keyless.process.settle(key)
    assert await keyless.names() == ([] if deleted else ["Thorvald"])
