"""The client of a pet store: typed calls, each with a deadline, over one gRPC channel.

    async with PetStoreClient("localhost:6742") as store:
        (identity,) = await store.add([Pet(name="Thor", type=PetType.DOG, birthday=date(2021, 4, 1))])

`petstore.errors` defines the errors that a call can raise.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import grpc

from petstore.errors import (
    DeadlinePassed,
    Exhausted,
    InvalidPet,
    KeyRefused,
    NoAnswer,
    PetStoreError,
    UnexpectedAnswer,
    UnknownPet,
    Unreachable,
)
from petstore.metrics import code_name
from petstore.pet import Pet, PetType
from petstore.proto import petstore_pb2 as pb
from petstore.proto.petstore_pb2_grpc import PetStoreStub
from petstore.wire import Malformed, date_message, pet_message, read_pet, type_number

if TYPE_CHECKING:
    from petstore.proto.petstore_pb2_grpc import PetStoreAsyncStub
    from petstore.tls import Tls

M = TypeVar("M")

__all__ = [
    "DeadlinePassed",
    "Exhausted",
    "InvalidPet",
    "KeyRefused",
    "NoAnswer",
    "Pet",
    "PetStoreClient",
    "PetStoreError",
    "PetType",
    "UnexpectedAnswer",
    "UnknownPet",
    "Unreachable",
]

_OPTIONS: Final = (
    # gRPC would wait up to two minutes before it retries a store that has been down for a while.
    ("grpc.initial_reconnect_backoff_ms", 200),
    # The timeout of a connection attempt: a store may be busy, or far away.
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # gRPC's message quotes a part of the proxy's password if the proxy's address is invalid.
    ("grpc.enable_http_proxy", 0),
    # No automatic retries: only the caller knows whether a call may be repeated.
    ("grpc.enable_retries", 0),
    # With these pings, a call that waits notices a dead connection.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # Several clients in one process with the same address have separate connections.
    ("grpc.use_local_subchannel_pool", 1),
    # A response record has a few hundred bytes; the operator may need one for each Pet at a time.
    ("grpc.max_receive_message_length", 1024 * 1024),
)

_LONGEST_ID: Final = 253
"""The maximum length of an id in characters, because ids appear in statuses and logs."""


# gRPC logs each undecodable response with a traceback, although the caller gets an error.
logging.getLogger("grpc._common").setLevel(logging.CRITICAL)

_NO_MESSAGE: Final = "the answer is not a message of this call"


def _message(answer: M | None) -> M:
    """Return the answer of a call; gRPC's answer is None if it cannot decode the store's message."""
    if answer is None:
        raise UnexpectedAnswer(_NO_MESSAGE)
    return answer


def _read(message: pb.Pet) -> Pet:
    pet = read_pet(message)
    if not _is_id(pet.id):
        raise Malformed("id: 1 to 253 printable characters are expected")
    return pet


def _is_id(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_ID and text.isprintable()


_ERRORS: Final = {
    grpc.StatusCode.UNAVAILABLE: Unreachable,
    grpc.StatusCode.CANCELLED: Unreachable,  # a stopping server sends this before it has processed the call
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlinePassed,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidPet,
    grpc.StatusCode.NOT_FOUND: UnknownPet,
    grpc.StatusCode.ALREADY_EXISTS: KeyRefused,
    grpc.StatusCode.FAILED_PRECONDITION: KeyRefused,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Exhausted,
}


Handled = Callable[[str, str, str, float], None]
"""A callback for a finished call: kind (`unary`, `server_stream`), method, status code, and seconds."""

Writing = Callable[[], AbstractAsyncContextManager[None]]
"""A factory of the context manager that surrounds each call that changes data."""


class PetStoreClient:
    """A client of one store, used as an async context manager in one event loop. The first call connects.

    Every call ends within `timeout` seconds (the argument of the call, or else of the client), and raises a
    PetStoreError if it fails. A cancelled call is cancelled on the store too, but may have taken effect.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float = 5.0,
        handled: Handled | None = None,
        writing: Writing = contextlib.nullcontext,
        reading: Callable[[], object] = lambda: None,
        tls: Tls | None = None,
        server_name: str | None = None,
        stub: Any = None,
    ) -> None:
        """Set up the client; `address` is `host:port`, or any name that gRPC resolves.

        `handled` is called after each call. `writing` returns a context manager around each call that changes
        data. The context manager may refuse or cancel the call, and its error is raised. `reading` is called
        before each search, and may refuse the search by an error.

        Without `tls` the connection is not encrypted. With `tls`, the store's certificate must be for
        `server_name`, by default the host of `address`; new connections use renewed certificate files. `stub`
        replaces the connection.
        """
        self.address = address
        self.timeout = timeout
        self._handled = handled
        self._writing = writing
        self._reading = reading
        self._tls = tls
        self._server_name = server_name
        self._given = stub
        self._stub: PetStoreAsyncStub = stub
        self._channels: list[grpc.aio.Channel] = []
        self.knows_keys: bool | None = None
        """Whether the store supports idempotency keys; None until a search has shown it."""

    async def __aenter__(self) -> Self:
        if self._given is None:
            self._connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        for channel in self._channels:
            await channel.close()

    def _connect(self) -> None:
        if self._tls is None:
            channel = grpc.aio.insecure_channel(self.address, options=_OPTIONS)
        else:
            name = self._server_name
            content = self._tls.content
            channel = grpc.aio.secure_channel(
                self.address,
                grpc.ssl_channel_credentials(content.ca, content.key, content.certificates),
                options=(*_OPTIONS, ("grpc.ssl_target_name_override", name)) if name else _OPTIONS,
            )
        self._channels.append(channel)
        self._stub = PetStoreStub(channel)
        self._looked = asyncio.get_running_loop().time()

    async def _current(self) -> PetStoreAsyncStub:
        now = asyncio.get_running_loop().time()
        if self._tls is not None and now - self._looked >= self._tls.look_every:
            self._looked = now
            if await asyncio.to_thread(self._tls.look):
                self._connect()
                # Calls on the previous channel may end; calls on older channels are cancelled.
                for channel in self._channels[:-2]:
                    await channel.close()
                del self._channels[:-2]
        return self._stub

    async def add(self, pets: Iterable[Pet], *, timeout: float | None = None) -> list[str]:
        """Add all pets or, on failure, none; return their ids in order.

        A pet with an idempotency key that the store already has is not added again. The result then has the
        id of the stored pet, which stays unchanged. A store without support for keys adds the pet a second
        time.

        Raises:
            InvalidPet: a pet already has an id, or an invalid value.
        """
        request = pb.AddPetsReq(pets=[pet_message(pet) for pet in pets])
        async with self._writing():
            with self._translated("AddPets"):
                stub = await self._current()
                answer = _message(await stub.AddPets(request, timeout=self._seconds(timeout)))
        if len(answer.ids) != len(request.pets):
            raise UnexpectedAnswer(f"{len(answer.ids)} ids came for {len(request.pets)} pets")
        for each in answer.ids:
            if not _is_id(each):
                raise UnexpectedAnswer("an id came that is empty, too long, or not printable")
        return list(answer.ids)

    async def update(self, pets: Iterable[Pet], *, timeout: float | None = None) -> None:
        """Change all pets or, on failure, none; a pet's id says which one to change.

        A stored pet without idempotency key gets the given key; "" leaves it without a key.

        Raises:
            UnknownPet: no pet has one of the ids.
            InvalidPet: a pet has no id, or an invalid value.
            KeyRefused: a pet has another key, or the key belongs to another pet.
        """
        request = pb.UpdatePetsReq(pets=[pet_message(pet) for pet in pets])
        async with self._writing():
            with self._translated("UpdatePets"):
                stub = await self._current()
                _message(await stub.UpdatePets(request, timeout=self._seconds(timeout)))

    async def delete(self, ids: Iterable[str], *, timeout: float | None = None) -> None:
        """Delete the pets with these ids or, on failure, none; ignore unknown ids."""
        request = pb.DeletePetsReq(ids=ids)
        async with self._writing():
            with self._translated("DeletePets"):
                stub = await self._current()
                _message(await stub.DeletePets(request, timeout=self._seconds(timeout)))

    async def search(
        self,
        *,
        names: Sequence[str] = (),
        types: Sequence[PetType] = (),
        born_from: datetime.date | None = None,
        born_before: datetime.date | None = None,
        keys: Sequence[str] = (),
        lenient: bool = False,
        timeout: float | None = None,
    ) -> AsyncGenerator[Pet, None]:
        """Yield the pets that match one value of each non-empty filter; without filters, yield all pets.

        The timeout covers the whole search. A reader that stops early must close the iterator (`aclosing`).
        `keys` selects pets with one of these idempotency keys. A store without support for keys ignores that
        filter; the client then ends the search at the first pet that has none of the keys.

        Another store may allow empty names or birthdays. Such an invalid pet ends the search with
        UnexpectedAnswer; with `lenient`, it is skipped.
        """
        self._reading()
        request = pb.SearchPetsReq(
            names=names, types=[type_number(kind) for kind in types], idempotency_keys=keys
        )
        if born_from is not None:
            request.birthdate_range.start.CopyFrom(date_message(born_from))
        if born_before is not None:
            request.birthdate_range.end.CopyFrom(date_message(born_before))
        wanted = set(keys)
        with self._translated("SearchPets", "server_stream"):
            # gRPC returns None for an unreadable message, although its type hints exclude None.
            call: Any = (await self._current()).SearchPets(request, timeout=self._seconds(timeout))
            try:
                async for message in call:
                    if message is None:
                        if lenient:
                            continue
                        raise UnexpectedAnswer(_NO_MESSAGE)
                    if wanted and message.idempotency_key not in wanted:
                        # The store ignores this filter, and would send all its pets.
                        self.knows_keys = False
                        return
                    if message.idempotency_key:
                        self.knows_keys = True
                    try:
                        pet = _read(message)
                    except Malformed:
                        if lenient:
                            continue
                        raise
                    yield pet
            finally:
                call.cancel()

    def _seconds(self, timeout: float | None) -> float:
        return self.timeout if timeout is None else timeout

    @contextlib.contextmanager
    def _translated(self, method: str, kind_of_call: str = "unary") -> Iterator[None]:
        """Replace errors of gRPC by those of `petstore.errors`, and report the call to `handled`."""
        code = grpc.StatusCode.OK
        began = asyncio.get_running_loop().time()
        try:
            yield
        except grpc.aio.AioRpcError as error:
            code = error.code()
            kind = _ERRORS.get(code, UnexpectedAnswer)
            text = error.details() or code.name
            raise kind(f"{code.name}: {text}" if kind is UnexpectedAnswer else text) from error
        except Malformed as error:
            raise UnexpectedAnswer(
                f"the store has a pet that this client does not understand: {error}"
            ) from error
        except asyncio.CancelledError:
            code = grpc.StatusCode.CANCELLED
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # gRPC reports this when the channel is closed during a call.
            raise Unreachable("the client was closed") from None
        finally:
            if self._handled is not None:
                seconds = asyncio.get_running_loop().time() - began
                self._handled(kind_of_call, method, code_name(code), seconds)
