"""Stores that have what no client understands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from controllers.petstore.check import StoreCheck
from manager.api import ObjectKey
from petstore.client import PetStoreClient
from petstore.proto import petstore_pb2 as pb
from petstore.proto.petstore_pb2_grpc import PetStoreServicer, add_PetStoreServicer_to_server
from tests.support.petstores import pet as thor
from tests.unit.controllers.fate import Fate
from tests.unit.controllers.petstore.world import ApiServer, Process

THOR = {"name": "Thor", "species": "dog", "birthday": "2021-04-01"}


# ruff: noqa: N802 -- the calls have the names of the wire contract
class LaxStore(PetStoreServicer):
    """Store that knows only the published contract, and accepts any value."""

    def __init__(self) -> None:
        self.pets: dict[str, pb.Pet] = {"0": pb.Pet(id="0", name="Thor", type=pb.PTCanine)}

    async def AddPets(self, request: pb.AddPetsReq, context: Any) -> pb.AddPetsResp:
        ids = [str(number) for number, _ in enumerate(request.pets, start=len(self.pets))]
        for identity, pet in zip(ids, request.pets, strict=True):
            self._keep(identity, pet)
        return pb.AddPetsResp(ids=ids)

    async def UpdatePets(self, request: pb.UpdatePetsReq, context: Any) -> pb.UpdatePetsResp:
        for pet in request.pets:
            if pet.id not in self.pets:
                await context.abort(grpc.StatusCode.NOT_FOUND, pet.id)
            self._keep(pet.id, pet)
        return pb.UpdatePetsResp()

    async def SearchPets(self, request: pb.SearchPetsReq, context: Any) -> AsyncIterator[pb.Pet]:
        for pet in list(self.pets.values()):
            if not request.names or pet.name in request.names:
                yield pet

    async def DeletePets(self, request: pb.DeletePetsReq, context: Any) -> pb.DeletePetsResp:
        for identity in request.ids:
            self.pets.pop(identity, None)
        return pb.DeletePetsResp()

    ChangeSampler = PetStoreServicer.ChangeSampler

    def _keep(self, identity: str, pet: pb.Pet) -> None:
        kept = pb.Pet(id=identity, name=pet.name, type=pet.type, birthday=pet.birthday)
        self.pets[identity] = kept


@pytest.fixture
def lax() -> LaxStore:
    return LaxStore()


@pytest.fixture
async def client(lax: LaxStore) -> AsyncIterator[PetStoreClient]:
    server = grpc.aio.server()
    add_PetStoreServicer_to_server(lax, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with PetStoreClient(f"127.0.0.1:{port}") as client:
        yield client
    await server.stop(0)


async def test_unreadable_records_do_not_disturb_other_pets_and_are_repaired(
    server: ApiServer, lax: LaxStore, client: PetStoreClient
):
    process = Process(server, client, Fate())
    key = server.create("thor", THOR)
    await process.settle(key)
    identity = server.pets[key]["status"]["id"]
    assert set(lax.pets) == {"0", identity}

    # Its own is found by the check, and mended.
    lax.pets[identity].ClearField("birthday")
    sent: list[str] = []

    def ask_for(key: ObjectKey) -> None:
        sent.append(key.name)

    check = StoreCheck(client, process.pets, ask_for, process.availability)
    await check.check()
    assert sent == ["thor"]
    await process.settle(key)
    assert server.pets[key]["status"]["id"] == identity
    found = [record async for record in client.search(lenient=True)]
    assert found == [thor(id=identity)]

    lax.pets[identity].ClearField("birthday")
    server.delete(key)
    await process.settle(key)
    assert set(lax.pets) == {"0"}
