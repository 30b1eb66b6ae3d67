"""A store in memory, with clients in the same process; their calls do not use a network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc

from petstore.client import PetStoreClient
from petstore.pet import Pet
from petstore.service import CallRefused, PetStoreService
from petstore.storage import Storage, new_id

Around = Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""A wrapper of a call, with the call's name and function as arguments; it may skip the call."""


class EmbeddedStore:
    """A pet store in the same process, with all calls of the published contract."""

    def __init__(self, service: PetStoreService) -> None:
        self._service = service
        self.client = self.another_client()

    def another_client(self, *, around: Around | None = None, **options: Any) -> PetStoreClient:
        """Return another client, which needs no `async with`; `around` wraps each of its calls."""
        return PetStoreClient("the store", timeout=20, stub=_Stub(self._service, around), **options)

    async def pets(self) -> list[Pet]:
        """Return all pets, in the order of their creation."""
        return [pet async for pet in self.client.search()]


@asynccontextmanager
async def embedded_store(
    *, ignore_idempotency_keys: bool = False, new_id: Callable[[], str] = new_id
) -> AsyncIterator[EmbeddedStore]:
    """Run a store; with `ignore_idempotency_keys`, it behaves like a store without support for keys."""
    async with Storage(None) as storage:
        yield EmbeddedStore(
            PetStoreService(storage, None, ignore_idempotency_keys=ignore_idempotency_keys, new_id=new_id)
        )


class _Stub:
    def __init__(self, service: PetStoreService, around: Around | None) -> None:
        self._service: Any = service
        self._around = around

    def __getattr__(self, method: str) -> Callable[..., Any]:
        serve = getattr(self._service, method)

        def call(request: Any, timeout: float) -> Any:  # noqa: ARG001 - nothing here takes long
            if method == "SearchPets":

                async def search() -> list[Any]:
                    return [pet async for pet in serve(request, None)]

                return _Search(self._carried(method, search))
            return self._carried(method, lambda: serve(request, None))

        return call

    async def _carried(self, method: str, call: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await (call() if self._around is None else self._around(method, call))
        except CallRefused as error:
            none = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(error.code, none, none, details=str(error)) from None


class _Search:
    def __init__(self, answer: Awaitable[list[Any]]) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[Any]:
        for pet in await self._answer:
            yield pet

    def cancel(self) -> None:
        """Do nothing, because the call has ended."""
