"""A pet store in the test's event loop, with faults that tests inject."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc

from petstore.address import BindAddress
from petstore.client import Pet, PetStoreClient, PetType
from petstore.proto import petstore_pb2_grpc
from petstore.server import PetStoreServer, ServerOptions

LOOPBACK = BindAddress("127.0.0.1", 0)
BIRTHDAY = datetime.date(2021, 4, 1)


class Held:
    """A call that the store delays until the test releases it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()
        self.given_up = asyncio.Event()

    async def hold(self) -> None:
        self.reached.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.given_up.set()
            raise


class Faults(grpc.aio.ServerInterceptor):
    """gRPC interceptor that delays the next calls of methods that do not stream."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Held]] = {}

    def hold(self, method: str) -> Held:
        """Delay the next call of `method`, such as "AddPets", until its release or cancellation."""
        held = Held()
        self._waiting.setdefault(method, []).append(held)
        return held

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        waiting = self._waiting.get(handler_call_details.method.rpartition("/")[2])
        if not waiting:
            return handler

        async def delayed(request: Any, context: Any) -> Any:
            if waiting:
                await waiting.pop(0).hold()
            return await handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(
            delayed,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )


class LocalStore:
    """A running pet store, a client of it, and a gRPC stub for direct calls."""

    def __init__(
        self, server: PetStoreServer, client: PetStoreClient, stub: petstore_pb2_grpc.PetStoreAsyncStub
    ) -> None:
        self.server = server
        self.client = client
        self.stub = stub

    async def pets(self) -> list[Pet]:
        """Return all pets in the order of their addition."""
        return [pet async for pet in self.client.search()]


@contextlib.asynccontextmanager
async def local_store(
    data: Path | None = None,
    *,
    faults: Faults | None = None,
    metrics: bool = False,
    **options: Any,
) -> AsyncIterator[LocalStore]:
    """Run a pet store on a free port, with its data in the file `data` or in memory."""
    settings = ServerOptions(
        bind_address=LOOPBACK,
        metrics_bind_address=LOOPBACK if metrics else None,
        data=data,
        **{"grace": 1.0, **options},
    )
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(
            PetStoreServer(settings, interceptors=(faults,) if faults else ())
        )
        client = await stack.enter_async_context(PetStoreClient(str(server.address), timeout=120))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(str(server.address)))
        yield LocalStore(server, client, petstore_pb2_grpc.PetStoreStub(channel))


def pet(
    name: str = "Thor", kind: PetType = PetType.DOG, birthday: datetime.date = BIRTHDAY, **more: str
) -> Pet:
    return Pet(name=name, type=kind, birthday=birthday, **more)
