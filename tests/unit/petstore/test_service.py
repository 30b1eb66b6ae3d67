"""Calls that add, change, delete or search pets, also with gRPC messages that the client cannot send."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import uuid
from collections.abc import Awaitable
from typing import Any

import grpc
import pytest
from google.type import date_pb2

from petstore.client import InvalidPet, KeyRefused, PetType, UnknownPet
from petstore.proto import petstore_pb2 as pb
from tests.support.petstores import LocalStore, local_store, pet

DAY = date_pb2.Date(year=2021, month=4, day=1)


async def code_of(call: Awaitable[Any]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details() or ""


def message(**fields: Any) -> pb.Pet:
    return pb.Pet(**{"name": "Thor", "type": pb.PTCanine, "birthday": DAY, **fields})


INVALID = {
    "a blank name": ({"name": " \t\u2003"}, "name"),
    "a NUL in the name": ({"name": "a\0b"}, "name"),
    "a NUL in the key": ({"idempotency_key": "a\0b"}, "idempotency_key"),
    "PTUnknown": ({"type": pb.PTUnknown}, "type"),
    "a type of the future": ({"type": 99}, "type"),
    "no birthday": ({"birthday": None}, "birthday"),
    "a year alone": ({"birthday": date_pb2.Date(year=2021)}, "birthday"),
    "no such day": ({"birthday": date_pb2.Date(year=2021, month=2, day=29)}, "birthday"),
    "a negative day": ({"birthday": date_pb2.Date(year=2021, month=1, day=-1)}, "birthday"),
}


@pytest.mark.parametrize(("fields", "named"), INVALID.values(), ids=INVALID)
async def test_service_refuses_an_invalid_pet_and_changes_nothing(
    store: LocalStore, fields: dict[str, Any], named: str
):
    (identity,) = await store.client.add([pet("Old")])
    request = pb.AddPetsReq(pets=[message(), message(**fields)])
    code, details = await code_of(store.stub.AddPets(request))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert details.startswith(f"pets[1].{named}:")
    changes = pb.UpdatePetsReq(pets=[message(id=identity), message(id=identity, **fields)])
    code, details = await code_of(store.stub.UpdatePets(changes))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert details.startswith(f"pets[1].{named}:")
    assert [found.name for found in await store.pets()] == ["Old"]


async def test_store_assigns_random_uuids_and_returns_records_in_the_order_of_addition(store: LocalStore):
    with pytest.raises(InvalidPet, match=r"pets\[0\]\.id: must not be set"):
        await store.client.add([pet(id=str(uuid.uuid4()))])
    ids = await store.client.add([pet(f"pet-{number}") for number in range(10)])
    assert {uuid.UUID(identity).version for identity in ids} == {4}
    assert [(found.id, found.name) for found in await store.pets()] == [
        (identity, f"pet-{number}") for number, identity in enumerate(ids)
    ]
    assert await store.client.add([]) == []


@pytest.mark.parametrize(
    "name", ["Ünïcödé 🐕", "a\tb\x1b", "x" * 1000, "'; DROP TABLE pets; --", "\u202egnirts"]
)
@pytest.mark.parametrize("birthday", [datetime.date.min, datetime.date(2024, 2, 29), datetime.date.max])
async def test_store_returns_unusual_names_and_birthdays_unchanged(
    store: LocalStore, name: str, birthday: datetime.date
):
    sent = pet(name, PetType.REPTILE, birthday, idempotency_key=f"key {name}")
    (identity,) = await store.client.add([sent])
    expected = [dataclasses.replace(sent, id=identity)]
    assert await store.pets() == expected
    assert [found async for found in store.client.search(names=[name])] == expected
    assert [found async for found in store.client.search(keys=[sent.idempotency_key])] == expected


async def test_store_update_changes_all_records_or_no_record(store: LocalStore):
    first, second = await store.client.add([pet("a"), pet("b")])
    changed = [pet("A", PetType.BIRD, id=first), pet("B", PetType.CAT, datetime.date(2000, 1, 1), id=second)]
    with pytest.raises(UnknownPet, match="no-such-id"):
        await store.client.update([*changed, pet(id="no-such-id")])
    assert [found.name for found in await store.pets()] == ["a", "b"]
    await store.client.update(changed)
    assert await store.pets() == changed
    with pytest.raises(InvalidPet, match=r"pets\[0\]\.id: must be set"):
        await store.client.update([pet()])


async def test_pet_store_delete_ignores_unknown_ids(store: LocalStore):
    first, second, third = await store.client.add([pet("a"), pet("b"), pet("c")])
    for ids in ([first, "no-such-id", third, first], [], ["no-such-id"]):
        await store.client.delete(ids)
        assert [found.id for found in await store.pets()] == [second]


def new_year(year: int) -> datetime.date:
    return datetime.date(year, 1, 1)


SEARCHES = {
    "no filter": ({}, "abcd"),
    "any of the names": ({"names": ["a", "c", "nobody"]}, "ac"),
    "names are whole": ({"names": ["A", ""]}, ""),
    "any of the types": ({"types": [PetType.DOG, PetType.BIRD]}, "abd"),
    "from is inclusive": ({"born_from": new_year(2001)}, "bcd"),
    "before is exclusive": ({"born_before": new_year(2003)}, "abc"),
    "all of them": ({"names": ["b", "d"], "types": [PetType.BIRD], "born_from": new_year(2003)}, "d"),
    "a key": ({"keys": ["key-b", "none"]}, "b"),
    "a key and a name": ({"keys": ["key-b"], "names": ["a"]}, ""),
    "a NUL": ({"names": ["a\0b"]}, ""),
    "many names": ({"names": ["a", *map(str, range(9_999))]}, "a"),
}


@pytest.mark.parametrize(("filters", "found"), SEARCHES.values(), ids=SEARCHES)
async def test_store_search_returns_records_that_match_one_value_of_every_filter(
    store: LocalStore, filters: dict[str, Any], found: str
):
    await store.client.add(
        [
            pet("a", PetType.DOG, new_year(2000)),
            pet("b", PetType.DOG, new_year(2001), idempotency_key="key-b"),
            pet("c", PetType.CAT, new_year(2002)),
            pet("d", PetType.BIRD, new_year(2003)),
        ]
    )
    assert "".join([one.name async for one in store.client.search(**filters)]) == found


async def test_store_adds_one_record_when_calls_repeat_an_idempotency_key(store: LocalStore):
    pets = [pet("Thor", idempotency_key="uid-1"), pet("Tron", idempotency_key="uid-2")] * 2
    answers = await asyncio.gather(*(store.client.add(pets) for _ in range(50)))
    assert len({tuple(ids) for ids in answers}) == 1
    assert answers[0][:2] == answers[0][2:]
    assert [found.name for found in await store.pets()] == ["Thor", "Tron"]
    other = pet("Other", PetType.CAT, idempotency_key="uid-1")
    assert await store.client.add([other]) == answers[0][:1]
    assert [found.name for found in await store.pets()] == ["Thor", "Tron"]


async def test_store_update_sets_an_idempotency_key_only_on_a_record_without_a_key(store: LocalStore):
    free, taken = await store.client.add([pet("free"), pet("taken", idempotency_key="uid-1")])
    with pytest.raises(KeyRefused, match="another pet has"):
        await store.client.update([pet("changed", id=free, idempotency_key="uid-1")])
    changed = [pet("changed", id=each, idempotency_key="uid-2") for each in (free, taken)]
    with pytest.raises(KeyRefused, match="has another idempotency key"):
        await store.client.update(changed)
    found = [(each.name, each.idempotency_key) for each in await store.pets()]
    assert found == [("free", ""), ("taken", "uid-1")]
    await store.client.update([pet("free", id=free, idempotency_key="uid-2"), pet("taken", id=taken)])
    assert [found.idempotency_key for found in await store.pets()] == ["uid-2", "uid-1"]


async def test_store_ignores_idempotency_keys_when_the_ignore_option_is_set():
    async with local_store(ignore_idempotency_keys=True) as store:
        first = await store.client.add([pet(idempotency_key="uid-1")])
        assert await store.client.add([pet(idempotency_key="uid-1")]) != first
        assert [found.idempotency_key for found in await store.pets()] == ["", ""]
        assert [found async for found in store.client.search(keys=["uid-1"])] == []
        await store.client.update([pet("Tron", id=first[0], idempotency_key="uid-2")])
        assert [found.name for found in await store.pets()] == ["Tron", "Thor"]
        # The server ignores an unknown filter, as any proto3 server would.
        request = pb.SearchPetsReq(idempotency_keys=["uid-1"])
        assert len([found async for found in store.stub.SearchPets(request)]) == 2
