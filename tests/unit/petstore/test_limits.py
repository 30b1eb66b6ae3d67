"""What hostile, hasty and slow clients can take: each limit, and that honest ones are served beside them."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import CollectorRegistry

from petstore.address import BindAddress
from petstore.bounds import CallRefused, Place, Places
from petstore.client import DeadlinePassed, Exhausted, InvalidPet, Unreachable
from petstore.limits import MAX_PETS, MAX_TEXT, MAX_VALUES, Limits
from petstore.metrics_page import serve_metrics
from petstore.proto import petstore_pb2 as pb
from petstore.storage import Add, Delete, Query, Storage, StoreFull, TooBusy, Update
from petstore.wire import pet_message
from tests.support.petstores import LOOPBACK, Faults, LocalStore, local_store, pet

LONG = "x" * MAX_TEXT
OWN = (("grpc.use_local_subchannel_pool", 1),)
"""A connection of its own."""

MUCH = 8 * 1024 * 1024
"""More bytes than gRPC sends to whoever does not read."""


async def add_once_there_is_room(store: LocalStore) -> None:
    while True:
        try:
            assert await store.client.add([pet()])
        except (Exhausted, Unreachable):
            await asyncio.sleep(0.02)
        else:
            return


async def test_calls_above_a_connections_share_wait_and_none_is_refused():
    async with local_store(limits=Limits(calls=64, connections=32)) as store:
        await add_once_there_is_room(store)  # 200 calls would not leave a slow machine the time to connect
        await asyncio.gather(*(store.client.add([pet()]) for _ in range(200)))
        assert len(await store.pets()) == 201


async def test_calls_whose_answers_are_never_taken_keep_nobody_out():
    limits = Limits(calls=64, connections=8)
    async with local_store(limits=limits) as store, AsyncExitStack() as stack:
        for _ in range(limits.connections - 2):
            # It ignores how many calls it may have.
            await begin_and_take_nothing(store, stack, 8 * limits.calls_of_one)
        for name in ("Thor", "Freya", "Odin"):
            assert await store.client.add([pet(name)])


async def test_a_request_that_is_too_long_is_refused_before_it_is_read():
    async with local_store(limits=Limits(message_bytes=10_000)) as store:
        with pytest.raises(Exhausted, match="larger than max"):
            await store.client.add([pet(LONG)] * 10)
        assert len(await store.client.add([pet(LONG)] * 9)) == 9


async def test_what_one_call_may_bring_is_limited(store: LocalStore):
    with pytest.raises(InvalidPet, match=f"pets: at most {MAX_PETS} are expected, not {MAX_PETS + 1}"):
        await store.client.add([pet()] * (MAX_PETS + 1))
    with pytest.raises(InvalidPet, match=rf"pets\[0\]\.name: must not be longer than {MAX_TEXT} bytes"):
        await store.client.add([pet(LONG + "x")])
    with pytest.raises(InvalidPet, match=r"pets\[0\]\.idempotency_key: must not be longer"):
        await store.client.add([pet(idempotency_key=LONG + "x")])
    with pytest.raises(InvalidPet, match=f"ids: at most {MAX_VALUES} are expected"):
        await store.client.delete(["x"] * (MAX_VALUES + 1))
    with pytest.raises(InvalidPet, match=f"names: at most {MAX_VALUES} are expected"):
        await anext(store.client.search(names=["x"] * (MAX_VALUES + 1)))
    assert await store.pets() == []


async def fill(store: LocalStore) -> None:
    for _ in range(0, MUCH, 200 * MAX_TEXT):
        await store.client.add([pet(LONG)] * 200)


async def test_searches_above_the_limit_are_refused():
    async with local_store(limits=Limits(searches=1)) as store, AsyncExitStack() as stack:
        await fill(store)
        first = await stack.enter_async_context(aclosing(store.client.search(timeout=60)))
        assert (await anext(first)).name == LONG
        with pytest.raises(Exhausted, match="too many searches are under way"):
            await anext(store.client.search())


async def test_who_does_not_read_gives_way_to_others():
    async with local_store(limits=Limits(searches=1, reader_seconds=0.5)) as store:
        await fill(store)
        await store.client.add([pet("wanted")])
        async with aclosing(store.client.search(timeout=60)) as slow:
            assert (await anext(slow)).name == LONG
            # Over the same connection, so that it is the time that ends it.
            while not await is_found(store, "wanted"):  # noqa: ASYNC110 -- the store alone knows when
                await asyncio.sleep(0.05)
            # It gets what had been sent, and then hears why there is no more.
            with pytest.raises(DeadlinePassed, match=r"nothing came of it for 0\.5 s"):
                _ = [found async for found in slow]


async def is_found(store: LocalStore, name: str) -> bool:
    """Whether that pet is found; not so while searches are refused."""
    try:
        async with aclosing(store.client.search(names=[name])) as pets:
            return [found.name async for found in pets] == [name]
    except Exhausted:
        return False


async def test_clients_that_go_in_the_middle_and_garbage_leave_no_errors_in_the_log(
    caplog: pytest.LogCaptureFixture,
):
    async with local_store(limits=Limits(reader_seconds=0.1)) as store:
        await fill(store)
        for wait in (0.0, 0.3):
            for _ in range(3):
                async with grpc.aio.insecure_channel(str(store.server.address), options=OWN) as channel:
                    call = type(store.stub)(channel).SearchPets(pb.SearchPetsReq())
                    await call.read()
                    await asyncio.sleep(wait)
        async with grpc.aio.insecure_channel(str(store.server.address), options=OWN) as channel:
            for path in ("/petstore.PetStore/AddPets", "/petstore.PetStore/NoPets", "/"):
                garbage = channel.unary_unary(path)
                with pytest.raises(grpc.aio.AioRpcError, match=r"not a message|Method not found"):
                    await garbage(b"\xff\xff")
        assert await store.client.add([pet()])
    assert [record.message for record in caplog.records if record.levelname in {"ERROR", "WARNING"}] == []


async def test_a_call_without_a_deadline_ends_all_the_same():
    faults = Faults()
    async with local_store(faults=faults, limits=Limits(call_seconds=0.1)) as store:
        held = faults.hold("AddPets")
        with pytest.raises(grpc.aio.AioRpcError, match=r"nothing came of it for 0\.1 s"):
            await store.stub.AddPets(pb.AddPetsReq())
        assert held.given_up.is_set()


async def begin_and_take_nothing(store: LocalStore, stack: AsyncExitStack, calls: int) -> None:
    """Add pets, one with each call, over a connection that leaves no room for answers."""

    def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload

    path = b"/petstore.PetStore/AddPets"
    head = b"\x83\x86\x41\x01x\x44" + bytes([len(path)]) + path
    head += b"\x5f\x10application/grpc\x40\x02te\x08trailers"
    pets = pb.AddPetsReq(pets=[pet_message(pet("not answered"))]).SerializeToString()
    data = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"\0\x04\0\0\0\0")
    for stream in range(1, 2 * calls, 2):
        data += frame(1, 4, stream, head) + frame(0, 1, stream, b"\0" + len(pets).to_bytes(4) + pets)
    _, writer = await asyncio.open_connection("127.0.0.1", store.server.address.port)

    def close(writer: asyncio.StreamWriter = writer) -> None:  # which is kept until then
        writer.transport.abort()

    stack.callback(close)
    before = calls_begun(store)
    writer.write(data)
    while calls_begun(store) == before:  # noqa: ASYNC110 -- the store alone knows when
        await asyncio.sleep(0.01)


async def test_who_goes_before_its_answer_is_taken_leaves_no_errors_in_the_log(
    store: LocalStore, caplog: pytest.LogCaptureFixture
):
    async with AsyncExitStack() as stack:
        await begin_and_take_nothing(store, stack, 1)
        await asyncio.sleep(0.1)
    while not ended(store):  # noqa: ASYNC110 -- likewise
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert [record.message for record in caplog.records if record.levelname in {"ERROR", "WARNING"}] == []


class Refusing(Faults):
    """Refuses calls, and does not hear the end of it, as where a client takes nothing."""

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        async def refuse(request: Any, context: Any) -> None:
            with suppress(grpc.aio.AbortError):
                await context.abort(grpc.StatusCode.NOT_FOUND, "not here")
            await asyncio.Event().wait()

        return grpc.unary_unary_rpc_method_handler(refuse)


async def test_a_refusal_that_is_not_taken_leaves_no_error_in_the_log(
    caplog: pytest.LogCaptureFixture,
):
    async with local_store(faults=Refusing(), limits=Limits(call_seconds=0.1)) as store:
        with pytest.raises(grpc.aio.AioRpcError, match="not here"):
            await store.stub.AddPets(pb.AddPetsReq())
        while not ended(store):  # noqa: ASYNC110 -- the store alone knows when
            await asyncio.sleep(0.01)
    assert [record.message for record in caplog.records if record.levelname in {"ERROR", "WARNING"}] == []


def ended(store: LocalStore) -> float:
    """How many calls have."""
    return counted(store, "grpc_server_handled_total")


async def test_who_says_nothing_keeps_nobody_out():
    async with local_store(limits=Limits(connections=4, silent_seconds=0.3)) as store:
        where = ("127.0.0.1", store.server.address.port)
        silent = [await asyncio.to_thread(socket.create_connection, where) for _ in range(8)]
        try:
            await add_once_there_is_room(store)  # as soon as they are sent away
        finally:
            for each in silent:
                each.close()


ADD, SEARCH = "/petstore.PetStore/AddPets", "/petstore.PetStore/SearchPets"
CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
LIST_SERVICES = b"\x3a\x00"

FEW = Limits(calls=128, connections=16, searches=4)
"""With eight calls for a connection, so that ten connections could take more than there are."""


async def keep_calls(
    store: LocalStore, channel: grpc.aio.Channel, method: str, request: bytes | None
) -> None:
    """Begin as many as one connection may have; the store waits for a request, the next one, or a reader."""
    before = calls_begun(store)
    calls: list[Any] = [channel.stream_stream(method)() for _ in range(FEW.calls_of_one)]
    if request is None:
        async with asyncio.timeout(60):
            while calls_begun(store) < before + len(calls):  # noqa: ASYNC110 -- the store alone knows when
                await asyncio.sleep(0.01)
    else:
        await asyncio.gather(*(call.write(request) for call in calls), return_exceptions=True)
        await asyncio.gather(*(call.read() for call in calls), return_exceptions=True)


def calls_begun(store: LocalStore) -> float:
    return counted(store, "grpc_server_started_total")


def counted(store: LocalStore, name: str) -> float:
    return sum(
        sample.value
        for family in store.server.metrics.registry.collect()
        for sample in family.samples
        if sample.name == name
    )


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        pytest.param(ADD, None, id="pets to add that never come"),
        pytest.param(SEARCH, None, id="searches that do not say for what"),
        pytest.param(SEARCH, b"", id="searches that read one pet"),
        pytest.param(CHECK, None, id="health checks that do not say of what"),
        pytest.param(WATCH, b"", id="who watches the health"),
        pytest.param(REFLECTION, LIST_SERVICES, id="who asks for services, and then nothing"),
    ],
)
async def test_calls_that_wait_for_their_client_keep_nobody_out(method: str, request_: bytes | None):
    stalls = method == SEARCH and request_ is not None  # what it has been sent stays with its connection
    async with local_store(limits=FEW) as store, AsyncExitStack() as stack:
        if stalls:
            await fill(store)
        for _ in range(5 if stalls else 10):
            await keep_calls(store, await connected(store, stack), method, request_)
        probe = health_pb2_grpc.HealthStub(await connected(store, stack))
        for name in ("Thor", "Freya", "Odin"):
            assert (await probe.Check(health_pb2.HealthCheckRequest(), timeout=20)).status
            assert await store.client.add([pet(name)])
            assert await is_found(store, name)


@pytest.mark.parametrize("method", [ADD, SEARCH, CHECK, WATCH])
async def test_a_call_whose_request_does_not_come_is_ended(method: str):
    async with local_store(limits=Limits(silent_seconds=0.1)) as store, AsyncExitStack() as stack:
        channel = await connected(store, stack)
        with pytest.raises(grpc.aio.AioRpcError, match=r"nothing came of it for 0\.1 s") as caught:
            await channel.stream_stream(method)().read()
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.parametrize("method", [ADD, SEARCH, CHECK, WATCH])
async def test_a_call_that_ends_without_a_request_is_refused(method: str):
    async with local_store() as store, AsyncExitStack() as stack:
        without: Any = (await connected(store, stack)).stream_stream(method)()
        await without.done_writing()
        with pytest.raises(grpc.aio.AioRpcError, match="there is no request"):
            await without.read()


async def test_who_asks_by_reflection_has_a_minute():
    async with local_store(limits=Limits(call_seconds=0.1)) as store, AsyncExitStack() as stack:
        call: Any = (await connected(store, stack)).stream_stream(REFLECTION)()
        await call.write(LIST_SERVICES)
        assert b"petstore.PetStore" in await call.read()
        with pytest.raises(grpc.aio.AioRpcError, match=r"nothing came of it for 0\.1 s"):
            await call.read()


def test_who_holds_most_places_makes_room_for_who_holds_few():
    places, gone = Places(3, "places"), list[str]()

    def take(name: str) -> Place:
        return places.take(name[0], lambda: gone.append(name))

    taken = [take("a0"), take("a1"), take("a2")]
    with pytest.raises(CallRefused):
        take("a3")
    taken.append(take("b0"))
    assert gone == ["a0"]
    with pytest.raises(CallRefused):
        take("b1")  # one more than half would only have "a" push it out again
    taken += [take("c0"), take("d0")]
    assert gone == ["a0", "a1", "a2"]
    for place in taken:
        places.leave(place)
    # Those that were given up were free once only.
    assert [take("e0"), take("e1"), take("e2")]
    with pytest.raises(CallRefused):
        take("e3")


async def connected(store: LocalStore, stack: AsyncExitStack) -> grpc.aio.Channel:
    """A connection of its own."""
    channel = grpc.aio.insecure_channel(str(store.server.address), options=OWN)
    return await stack.enter_async_context(channel)


async def test_the_queue_of_writes_is_limited_and_who_has_gone_takes_no_place():
    async with Storage(None, Limits(waiting_pets=50)) as storage:
        first = [asyncio.create_task(storage.write(Add([pet()] * 9))) for _ in range(5)]
        await asyncio.sleep(0)  # all wait, and none has begun
        with pytest.raises(TooBusy, match="try again later"):
            await storage.write(Add([pet()]))
        for task in first[1:]:
            task.cancel()
        await asyncio.sleep(0)
        assert await storage.write(Add([pet("honest")]))
        assert len([one async for page in storage.search(Query()) for one in page]) == 10


async def test_the_number_of_pets_is_limited():
    async with Storage(None, Limits(pets=10)) as storage:
        ids = await storage.write(Add([pet(str(number), idempotency_key=str(number)) for number in range(8)]))
        with pytest.raises(StoreFull, match=r"the store is full: it may have 10 pets \(--max-pets\)"):
            await storage.write(Add([pet(), pet(), pet()]))  # none of them
        ids += await storage.write(Add([pet(), pet()]))
        # What needs no room goes on.
        assert await storage.write(Add([pet(idempotency_key="7")])) == [ids[7]]
        await storage.write(Update([pet("changed", id=ids[0])]))
        both = await asyncio.gather(
            storage.write(Add([pet()])), storage.write(Delete([*ids[:2], "none"])), return_exceptions=True
        )
        assert isinstance(both[0], StoreFull)
        assert len(await storage.write(Add([pet(), pet()]))) == 2
        with pytest.raises(StoreFull):
            await storage.write(Add([pet()]))


async def test_the_bytes_of_the_file_are_limited():
    async with Storage(None, Limits(data_bytes=300_000)) as storage:
        ids: list[str] = []
        with pytest.raises(StoreFull, match=r"it may have 300000 bytes \(--max-data-size\)"):
            await storage.write(Add([pet(LONG)] * 1000))  # none of them
        for _ in range(30):
            ids += await storage.write(Add([pet(LONG)]))
        with pytest.raises(StoreFull):
            await storage.write(Add([pet(LONG)] * 100))
        await storage.write(Delete(ids[:20]))
        assert len(await storage.write(Add([pet(LONG)] * 15))) == 15
        with pytest.raises(StoreFull):
            await storage.write(Update([pet("y" * 100_000, id=identity) for identity in ids[20:]]))
        await storage.write(Update([pet("short", id=identity) for identity in ids[20:]]))


async def test_a_full_store_says_so(store: LocalStore):
    async with local_store(limits=Limits(pets=1)) as full:
        await full.client.add([pet()])
        with pytest.raises(Exhausted, match="the store is full"):
            await full.client.add([pet()])


async def test_only_a_store_that_was_told_so_lets_its_log_be_changed(store: LocalStore):
    with pytest.raises(grpc.aio.AioRpcError, match="--allow-change-sampler") as caught:
        await store.stub.ChangeSampler(pb.ChangeSamplerReq(sampler=pb.Sampler(type=pb.STAlways)))
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


# The page with the metrics.


async def connect(address: BindAddress, send: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(send)
    await writer.drain()
    return reader, writer


async def scrape(address: BindAddress, request: bytes = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") -> bytes:
    reader, writer = await connect(address, request)
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_150_half_sent_requests_take_no_threads_and_keep_no_scraper_out():
    async with local_store(metrics=True) as store:
        address = store.server.metrics_address
        assert address is not None
        assert b" 200 OK\r\n" in await scrape(address)
        threads = threading.active_count()
        half_sent = [await connect(address, b"GET /metrics HTTP/1.1\r\nHo") for _ in range(150)]
        try:
            assert b"grpc_server_started_total" in await scrape(address)
            assert threading.active_count() == threads
            # All but the newest have been cut off.
            for reader, _ in half_sent[:100]:
                with pytest.raises((OSError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1)
        finally:
            for _, writer in half_sent:
                writer.close()


async def test_a_half_sent_request_ends_after_a_while():
    async with serve_metrics(LOOPBACK, CollectorRegistry(), seconds=0.1) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\n")
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics?name[]=x HTTP/1.1\r\n\r\n", b"200 OK"),
        (b"HEAD /metrics HTTP/1.0\r\n\r\n", b"200 OK"),
        (b"GET /metrics HTTP/1.1\r\nAccept: text/plain;version=x\r\n\r\n", b"200 OK"),
        (b"GET / HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405 Method Not Allowed"),
        (b"\x16\x03\x01\x00\r\n\r\n", b"400 Bad Request"),
        (
            b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
            b"431 Request Header Fields Too Large",
        ),
    ],
)
async def test_whatever_is_asked_of_the_page_gets_an_answer(request_: bytes, status: bytes):
    async with local_store(metrics=True) as store:
        assert store.server.metrics_address is not None
        answer = await scrape(store.server.metrics_address, request_)
        assert answer.startswith(b"HTTP/1.1 " + status)
