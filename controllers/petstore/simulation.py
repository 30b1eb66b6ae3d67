"""A pet store for simulations, in the same process; each replica has a client on its own network."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc

from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.birthday import InvalidBirthday
from controllers.petstore.record import ADDED_AS, Content, wanted
from manager import AnyOperator
from manager_tools.simulation import Outside, Replica
from petstore.client import PetStoreClient
from petstore.embedded import embedded_store

_NEVER_SENT = 0.2
"""The probability that a call is lost if its caller gives up."""

_PETS = "pets.petstore.example.com"


class PetStoreOutside(Outside):
    """A pet store that the managers of a simulation call."""

    ignored = frozenset({ADDED_AS})  # the annotation has earlier content

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the store inside the block."""
        rng = random.Random(f"{self.world.seed}/store")
        async with embedded_store(new_id=lambda: str(uuid.UUID(int=rng.getrandbits(128)))) as self.store:
            yield

    def operator(self, operator: AnyOperator, replica: Replica) -> AnyOperator:
        """Return the operator with a client on the replica's network."""
        outside = self

        async def around(method: str, call: Callable[[], Awaitable[Any]]) -> Any:
            return await outside.carried(replica, method, call)

        class Simulated(operator):  # type: ignore[misc, valid-type]
            name = operator.name

            def connect(self) -> PetStoreClient:
                return outside.store.another_client(around=around, writing=self.manager.leadership.held)

        return Simulated

    async def carried(self, replica: Replica, method: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Carry a call to the store, and the answer back; the call may arrive after its caller's time-out."""
        travels = asyncio.get_running_loop().create_task(
            self._travel(replica, method, call), context=self.world.context.copy()
        )
        travels.add_done_callback(lambda it: it.cancelled() or it.exception())
        try:
            return await asyncio.shield(travels)
        except asyncio.CancelledError:
            if replica.rng.random() < _NEVER_SENT:
                travels.cancel()
            raise

    async def _travel(self, replica: Replica, method: str, call: Callable[[], Awaitable[Any]]) -> Any:
        weather, chance = replica.weather, replica.rng.random
        if weather.refusing or chance() < weather.loss:
            raise _unavailable("lost on the way")
        await asyncio.sleep(replica.rng.uniform(0, weather.delay))
        if weather.silent:
            await asyncio.sleep(5.0)
            raise grpc.aio.AioRpcError(
                grpc.StatusCode.DEADLINE_EXCEEDED, grpc.aio.Metadata(), grpc.aio.Metadata()
            )
        writes = method != "SearchPets"
        if writes and await replica.effect(f"store {method}", "before"):
            raise _unavailable("dead")
        answer = await call()
        if writes:
            await replica.effect(f"store {method}", "after")
        else:
            replica.has_looked()
        if chance() < weather.loss:
            raise _unavailable("lost on the way back")
        await asyncio.sleep(replica.rng.uniform(0, weather.delay))
        return answer

    async def check(self) -> list[str]:
        """Check that each Pet has exactly one record with its content, and that no other records exist."""
        records = await self.store.pets()
        by_key = {each.idempotency_key: each for each in records}
        problems = []
        if len(by_key) != len(records):
            problems.append(f"there are {len(records)} records for {len(by_key)} pets")
        seen = set()
        for obj in self.world.cluster.client.list(_PETS):
            pet = Pet.model_validate(obj)
            seen.add(pet.metadata.uid)
            try:
                content = wanted(pet)
            except InvalidBirthday:
                continue
            record = by_key.get(pet.metadata.uid)
            if record is None:
                problems.append(f"Pet {pet.key} has no record: {pet.status}")
            elif Content.of(record) != content:
                problems.append(f"the record of Pet {pet.key} says {Content.of(record)}, and not {content}")
            elif pet.status.id != record.id:
                problems.append(f"Pet {pet.key} has id {pet.status.id}, and its record {record.id}")
        problems += [
            f"the record of a deleted Pet still exists: {each}"
            for key, each in by_key.items()
            if key not in seen and key not in self.world.forgotten
        ]
        return problems

    async def state(self) -> Any:
        """Return the content of all records, for the comparison with a fresh cluster."""
        records = await self.store.pets()
        known = [each for each in records if each.idempotency_key not in self.world.forgotten]
        return sorted(str(Content.of(each)) for each in known)


def _unavailable(why: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), details=f"{why} (simulated)"
    )
