"""The five calls of the published contract, which docs/petstore.md describes."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeAlias, TypeVar

import grpc

from petstore.pet import Pet
from petstore.proto import petstore_pb2 as pb
from petstore.proto.petstore_pb2_grpc import PetStoreServicer
from petstore.sampler import Sampler
from petstore.storage import (
    DiskFull,
    KeyConflict,
    KeyTaken,
    PetUnknown,
    Query,
    Storage,
    StorageError,
    WriteFailed,
    new_id,
)
from petstore.wire import Malformed, pet_message, read_date, read_pet, read_type

T = TypeVar("T")

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

_CODES: Final[dict[type[StorageError], grpc.StatusCode]] = {
    PetUnknown: grpc.StatusCode.NOT_FOUND,
    KeyConflict: grpc.StatusCode.FAILED_PRECONDITION,
    KeyTaken: grpc.StatusCode.ALREADY_EXISTS,
    DiskFull: grpc.StatusCode.RESOURCE_EXHAUSTED,
    # After this error, the client may repeat the call.
    WriteFailed: grpc.StatusCode.UNAVAILABLE,
}


class CallRefused(Exception):
    """An error that ends a call with the status `code` and a text for users."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class PetStoreService(PetStoreServicer):
    """The calls of a store; the caller must have entered its `storage` as a context manager."""

    def __init__(
        self,
        storage: Storage,
        sampler: Sampler | None,
        *,
        ignore_idempotency_keys: bool = False,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        """Set up the service.

        With a `sampler`, clients may choose by ChangeSampler which calls are logged; None forbids this. With
        `ignore_idempotency_keys`, the store supports only the published contract, without keys. `new_id`
        generates the ids of new pets.
        """
        self._storage = storage
        self._sampler = sampler
        self._ignore_keys = ignore_idempotency_keys
        self._new_id = new_id

    async def AddPets(self, request: pb.AddPetsReq, context: Context) -> pb.AddPetsResp:
        """Add all pets or, on failure, none; the response has their ids in order."""
        try:
            pets = self._read(request.pets, with_ids=False)
        except Malformed as error:
            raise _invalid(error) from None
        return pb.AddPetsResp(ids=await _stored(self._storage.add(pets, self._new_id)))

    async def UpdatePets(self, request: pb.UpdatePetsReq, context: Context) -> pb.UpdatePetsResp:
        """Change all pets or, on failure, none; a pet's id says which one to change."""
        try:
            pets = self._read(request.pets, with_ids=True)
        except Malformed as error:
            raise _invalid(error) from None
        await _stored(self._storage.update(pets))
        return pb.UpdatePetsResp()

    async def DeletePets(self, request: pb.DeletePetsReq, context: Context) -> pb.DeletePetsResp:
        """Delete the pets with these ids or, on failure, none; ignore unknown ids."""
        await _stored(self._storage.delete(list(request.ids)))
        return pb.DeletePetsResp()

    async def SearchPets(self, request: pb.SearchPetsReq, context: Context) -> AsyncIterator[pb.Pet]:
        """Send the matching pets, as fast as the client reads them."""
        try:
            query = self._query(request)
        except Malformed as error:
            raise _invalid(error) from None
        try:
            async with aclosing(self._storage.search(query)) as pages:
                async for page in pages:
                    for pet in page:
                        yield pet_message(self._shown(pet))
        except StorageError as error:
            raise _failed(error) from None

    async def ChangeSampler(self, request: pb.ChangeSamplerReq, context: Context) -> pb.ChangeSamplerResp:
        """Set which calls are logged from now on; raise CallRefused if the service has no sampler."""
        if self._sampler is None:
            text = "this store was not started with --allow-change-sampler"
            raise CallRefused(grpc.StatusCode.PERMISSION_DENIED, text)
        try:
            self._sampler.change(request.sampler)
        except Malformed as error:
            raise _invalid(error) from None
        return pb.ChangeSamplerResp()

    def _read(self, messages: Sequence[pb.Pet], *, with_ids: bool) -> list[Pet]:
        pets = []
        for index, message in enumerate(messages):
            try:
                pet = read_pet(message)
            except Malformed as error:
                raise Malformed(f"pets[{index}].{error}") from None
            if bool(pet.id) != with_ids:
                expected = "must be set" if with_ids else "must not be set, the store gives it"
                raise Malformed(f"pets[{index}].id: {expected}")
            pets.append(self._shown(pet))
        return pets

    def _shown(self, pet: Pet) -> Pet:
        if self._ignore_keys and pet.idempotency_key:
            return dataclasses.replace(pet, idempotency_key="")
        return pet

    def _query(self, request: pb.SearchPetsReq) -> Query:
        born = request.birthdate_range
        limits = {}
        for field in ("start", "end"):
            if born.HasField(field):
                try:
                    limits[field] = read_date(getattr(born, field))
                except Malformed as error:
                    raise Malformed(f"birthdate_range.{field}: {error}") from None
        return Query(
            names=list(request.names),
            types=[read_type(number) for number in request.types],
            keys=() if self._ignore_keys else list(request.idempotency_keys),
            born_from=limits.get("start"),
            born_before=limits.get("end"),
        )


async def _stored(change: Awaitable[T]) -> T:
    try:
        return await change
    except StorageError as error:
        raise _failed(error) from None


def _invalid(error: Malformed) -> CallRefused:
    return CallRefused(grpc.StatusCode.INVALID_ARGUMENT, str(error))


def _failed(error: StorageError) -> CallRefused:
    return CallRefused(_CODES.get(type(error), grpc.StatusCode.INTERNAL), str(error))
