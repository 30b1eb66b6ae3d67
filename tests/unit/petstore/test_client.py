"""The client with valid and invalid responses of the store, and without a response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import grpc
import pytest

from petstore.client import DeadlinePassed, PetStoreClient, UnexpectedAnswer, UnknownPet, Unreachable
from petstore.proto import petstore_pb2 as pb
from petstore.proto.petstore_pb2_grpc import PetStoreServicer, add_PetStoreServicer_to_server
from petstore.wire import pet_message
from tests.support.petstores import LocalStore, local_store, pet
from tests.support.ports import PortBlock

ODD_IDS = {"Nameless": "", "Endless": "1" * 254, "Forged": "1\x1b[2J"}
STOPPING = "\x1b[2Jthe server is\nstopping"


# ruff: noqa: N802 -- the calls have the names of the wire contract
class OtherStore(PetStoreServicer):
    """Store that never answers deletions, adds nothing, and returns invalid results."""

    async def AddPets(self, request: pb.AddPetsReq, context: Any) -> pb.AddPetsResp:
        if request.pets and request.pets[0].name == "Late":
            await context.abort(grpc.StatusCode.CANCELLED, STOPPING)
        name = request.pets[0].name if request.pets else ""
        return pb.AddPetsResp(ids=[ODD_IDS[name]] if name in ODD_IDS else [])

    async def DeletePets(self, request: pb.DeletePetsReq, context: Any) -> pb.DeletePetsResp:
        await asyncio.Event().wait()
        return pb.DeletePetsResp()

    async def SearchPets(self, request: pb.SearchPetsReq, context: Any) -> AsyncIterator[pb.Pet]:
        yield pb.Pet(id="1", name="Odd", idempotency_key="theirs")
        for odd in ODD_IDS.values():
            yield pet_message(pet("Odd", id=odd))
        yield pet_message(pet("Thor", id="2"))

    UpdatePets = PetStoreServicer.UpdatePets
    ChangeSampler = PetStoreServicer.ChangeSampler


@asynccontextmanager
async def client_of(store: PetStoreServicer) -> AsyncIterator[PetStoreClient]:
    server = grpc.aio.server()
    add_PetStoreServicer_to_server(store, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with PetStoreClient(f"127.0.0.1:{port}", timeout=60) as client:
        yield client
    await server.stop(0)


@pytest.fixture
async def other() -> AsyncIterator[PetStoreClient]:
    async with client_of(OtherStore()) as client:
        yield client


async def test_client_raises_unreachable_when_no_store_listens():
    with PortBlock(1) as ports:
        async with PetStoreClient(f"127.0.0.1:{ports[0]}") as client:
            for call in (client.add([pet()]), anext(client.search())):
                with pytest.raises(Unreachable, match="Connection refused"):
                    await call


@pytest.mark.parametrize("variable", ["grpc_proxy", "https_proxy", "http_proxy"])
async def test_client_connects_without_a_proxy_even_if_a_proxy_variable_is_set(
    monkeypatch: pytest.MonkeyPatch, variable: str
):
    monkeypatch.setenv(variable, "http://me:s3cret/x@127.0.0.1:1")
    async with client_of(OtherStore()) as client:
        assert await client.add([]) == []


async def test_client_call_has_a_deadline_and_can_be_cancelled(other: PetStoreClient):
    with pytest.raises(DeadlinePassed):
        await other.delete(["x"], timeout=0.05)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await other.delete(["x"])


async def test_client_call_raises_unreachable_when_the_client_closes_during_the_call(other: PetStoreClient):
    async with PetStoreClient(other.address) as client:
        call = asyncio.create_task(client.delete(["x"]))
        await other.add([])  # the store runs, and this loop has run
    with pytest.raises(Unreachable):
        await call


async def test_client_refuses_answers_that_break_the_contract(other: PetStoreClient):
    with pytest.raises(UnexpectedAnswer, match="0 ids came for 1 pets"):
        await other.add([pet()])
    for name in ODD_IDS:
        with pytest.raises(UnexpectedAnswer, match="an id came that is empty, too long, or not printable"):
            await other.add([pet(name)])
    with pytest.raises(UnexpectedAnswer, match="does not understand: type"):
        _ = [found async for found in other.search()]
    with pytest.raises(UnexpectedAnswer, match="UNIMPLEMENTED"):
        await other.update([pet(id="1")])


async def test_client_write_raises_unexpected_answer_when_the_answer_cannot_be_decoded():
    async def answer(request: bytes, context: Any) -> bytes:
        return b"\xff"

    handler = grpc.unary_unary_rpc_method_handler(answer)
    methods = dict.fromkeys(("AddPets", "UpdatePets", "DeletePets"), handler)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("petstore.PetStore", methods)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with PetStoreClient(f"127.0.0.1:{port}", timeout=60) as client:
        for call in (client.add([pet()]), client.update([pet(id="1")]), client.delete(["1"])):
            with pytest.raises(UnexpectedAnswer, match="the answer is not a message of this call"):
                await call
    await server.stop(0)


async def test_client_call_raises_unreachable_when_a_stopping_store_cancels_it(other: PetStoreClient):
    with pytest.raises(Unreachable, match=r"^\\x1b\[2Jthe server is\\nstopping$"):
        await other.add([pet("Late")])


async def test_lenient_client_search_omits_invalid_pets(other: PetStoreClient):
    assert [found.name async for found in other.search(lenient=True)] == ["Thor"]
    assert other.knows_keys is True


async def test_client_is_usable_after_a_search_that_was_stopped_early(store: LocalStore):
    for start in (0, 1000):
        await store.client.add([pet(str(number)) for number in range(start, start + 1000)])
    async with aclosing(store.client.search()) as pets:
        assert (await anext(pets)).name == "0"
    assert len(await store.pets()) == 2000


async def test_client_detects_idempotency_key_support_when_it_reads_a_record_with_a_key(store: LocalStore):
    client = store.client
    await client.add([pet(idempotency_key="mine"), pet()])
    assert [each async for each in client.search(names=["nobody"])] == []
    assert client.knows_keys is None
    assert len(await store.pets()) == 2
    assert client.knows_keys is True
    assert [each async for each in client.search(keys=["other"])] == []
    assert client.knows_keys is True


class EndlessStore(OtherStore):
    """Store that has no idempotency keys, and returns an endless number of pets."""

    async def SearchPets(self, request: pb.SearchPetsReq, context: Any) -> AsyncIterator[pb.Pet]:
        while True:
            yield pet_message(pet())


async def test_client_search_stops_reading_when_the_store_ignores_the_key_filter():
    async with client_of(EndlessStore()) as client:
        assert [each async for each in client.search(keys=["mine"])] == []
        assert client.knows_keys is False


async def test_client_reports_method_and_grpc_code_of_each_finished_call():
    told: list[tuple[str, str, str]] = []
    async with (
        local_store() as store,
        PetStoreClient(str(store.server.address), handled=lambda *call: told.append(call[:3])) as client,
    ):
        await client.add([pet()])
        assert len([each async for each in client.search()]) == 1
        with pytest.raises(UnknownPet):
            await client.update([pet(id="nobody")])
        await client.delete([])
    assert told == [
        ("unary", "AddPets", "OK"),
        ("server_stream", "SearchPets", "OK"),
        ("unary", "UpdatePets", "NotFound"),
        ("unary", "DeletePets", "OK"),
    ]
