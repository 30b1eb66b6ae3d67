"""The server's health, metrics, log, addresses and stop."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from petstore.address import BindAddress
from petstore.client import Exhausted, InvalidPet
from petstore.proto import petstore_pb2 as pb
from petstore.server import CannotListen, PetStoreServer, ServerOptions
from tests.support.metrics import Samples, get
from tests.support.petstores import LOOPBACK, Faults, LocalStore, local_store, pet

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def test_server_metrics_have_the_usual_names_of_grpc_metrics():
    async with local_store(metrics=True) as store:
        await store.client.add([pet("a"), pet("b")])
        with pytest.raises(InvalidPet):
            await store.client.add([pet(" ")])
        assert len(await store.pets()) == 2
        _, page = await asyncio.to_thread(get, f"http://{store.server.metrics_address}/metrics")
    found = Samples(page)
    assert found.value("grpc_server_started_total", grpc_method="AddPets") == 2
    assert found.value("grpc_server_handled_total", grpc_method="AddPets", grpc_code="OK") == 1
    assert found.value("grpc_server_handled_total", grpc_method="AddPets", grpc_code="InvalidArgument") == 1
    assert found.value("grpc_server_handled_total", grpc_method="SearchPets", grpc_code="OK") == 1
    assert found.value("grpc_server_msg_received_total", grpc_method="SearchPets") == 1
    assert found.value("grpc_server_msg_sent_total", grpc_method="SearchPets") == 2
    assert found.value("grpc_server_handling_seconds_count", grpc_method="AddPets") == 2
    assert found.value("process_resident_memory_bytes") > 0
    assert not [name for name in found.names() if name.endswith("_created")]


async def test_sampled_calls_are_logged_with_the_address_of_the_client(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "petstore.calls")
    async with local_store(allow_change_sampler=True) as store:
        await store.client.add([pet()])
        assert not caplog.messages
        await store.stub.ChangeSampler(pb.ChangeSamplerReq(sampler=pb.Sampler(type=pb.STAlways)))
        with pytest.raises(InvalidPet):
            await store.client.add([pet(" ")])
    assert "/petstore.PetStore/AddPets INVALID_ARGUMENT" in caplog.messages[-1]
    assert caplog.messages[-1].rpartition(" from ")[2].startswith("127.0.0.1:")


@pytest.mark.parametrize("method", ["AddPets", "SearchPets"])
async def test_server_refuses_bytes_that_are_not_a_message(method: str, caplog: pytest.LogCaptureFixture):
    async with local_store() as store, grpc.aio.insecure_channel(str(store.server.address)) as channel:
        call = channel.unary_stream(f"/petstore.PetStore/{method}")(b"\0\n\x14", timeout=60)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            async for _ in call:
                pass
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert await store.pets() == []
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_server_refuses_too_large_messages_and_too_many_calls():
    async with local_store(message_bytes=4096, calls=1, faults=(faults := Faults())) as store:
        with pytest.raises(Exhausted, match="larger than max"):
            await store.client.add([pet("x" * 1000) for _ in range(5)])
        held = faults.hold("DeletePets")
        first = asyncio.create_task(store.client.delete(["1"]))
        await held.reached.wait()
        with pytest.raises(Exhausted):
            await store.client.delete(["2"])
        held.released.set()
        await first
        await store.client.delete(["3"])


async def test_change_sampler_call_is_refused_without_the_flag_allow_change_sampler(store: LocalStore):
    with pytest.raises(grpc.aio.AioRpcError, match="--allow-change-sampler") as caught:
        await store.stub.ChangeSampler(pb.ChangeSamplerReq(sampler=pb.Sampler(type=pb.STAlways)))
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_health_service_reports_serving_until_the_server_stops():
    async with AsyncExitStack() as outside:
        async with PetStoreServer(ServerOptions(bind_address=LOOPBACK, grace=0.2)) as server:
            channel = await outside.enter_async_context(grpc.aio.insecure_channel(str(server.address)))
            health = health_pb2_grpc.HealthStub(channel)
            for name in ("", "petstore.PetStore"):
                answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
                assert answer.status == SERVING
            watch = health.Watch(health_pb2.HealthCheckRequest())
            assert (await watch.read()).status == SERVING
            # Read from now on, because the end of the stream may arrive before unread changes.
            change = asyncio.create_task(watch.read())
        assert (await change).status == NOT_SERVING


async def test_server_that_cannot_bind_its_address_fails_to_start_and_releases_the_data_file_lock(
    tmp_path: Path,
):
    async with local_store(metrics=True) as store:
        calls, metrics = store.server.address, store.server.metrics_address
        for options in (
            ServerOptions(bind_address=calls, data=tmp_path / "pets.db"),
            ServerOptions(bind_address=BindAddress("", calls.port), data=tmp_path / "pets.db"),
            ServerOptions(bind_address=LOOPBACK, metrics_bind_address=metrics, data=tmp_path / "pets.db"),
        ):
            with pytest.raises(CannotListen, match=r"Address already in use$"):
                async with PetStoreServer(options):
                    pass
    async with local_store(tmp_path / "pets.db"):
        pass  # the file is not locked any more
