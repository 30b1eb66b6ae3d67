"""What the cache knows of Pets, decoded no further than it takes to compare them with records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.birthday import InvalidBirthday, day_of
from controllers.petstore.record import Content
from manager.api import ObjectKey
from manager.cache import Cache, Meta, Record

__all__ = ["CachedPet", "CachedPets"]

_BY_ID = "store-id"
_BY_UID = "uid"


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str = ""


class _Spec(msgspec.Struct):
    name: str = ""
    species: str = ""
    birthday: str = ""


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct, rename="camel"):
    id: str | None = None
    observed_generation: int = 0
    conditions: list[_Condition] = []


class _Pet(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(_Pet)


class CachedPet:
    """One Pet, as it is in the cache now."""

    def __init__(self, record: Record) -> None:
        self._pet = _decode(record)
        self.key: ObjectKey = record.key
        self.uid: str = record.uid
        self.deleting: bool = record.deleting
        self._generation = record.generation

    @property
    def id(self) -> str:
        """The id of its record; "" when none is known yet."""
        return self._pet.status.id or ""

    @property
    def says_all_is_well(self) -> bool:
        """Whether its status tells that the store has it as the spec is now."""
        status = self._pet.status
        true = {each.type for each in status.conditions if each.status == "True"}
        return status.observed_generation == self._generation and true >= {"Ready", "StoreReachable"}

    @property
    def age(self) -> tuple[str, str]:
        """Sorts Pets from the oldest to the youngest, no two alike."""
        return self._pet.metadata.creation_timestamp, self.uid

    @property
    def wanted(self) -> Content | None:
        """What the store is to say of it; None when that cannot be said."""
        spec = self._pet.spec
        try:
            return Content(spec.name, spec.species, day_of(spec.birthday))
        except InvalidBirthday:
            return None


class CachedPets:
    """Finds Pets in the cache by their UID, and by the id of their record."""

    def __init__(self, cache: Cache) -> None:
        self._informer = cache.informer(Pet)
        self._informer.add_index(_BY_ID, _id_of)
        self._informer.add_index(_BY_UID, _uid_of)

    def __iter__(self) -> Iterator[CachedPet]:
        """All there are when it begins."""
        return map(CachedPet, self._informer.list())

    def of_id(self, id: str) -> list[CachedPet]:  # noqa: A002 - the field's name
        """Those whose status has this id; more than one only after somebody wrote it there."""
        return [CachedPet(record) for record in self._informer.list(index=(_BY_ID, id))]

    def of_uid(self, uid: str) -> CachedPet | None:
        """The one of this UID, if it is there."""
        found = self._informer.list(index=(_BY_UID, uid))
        return CachedPet(found[0]) if found else None

    async def wait_synced(self) -> None:
        """Return once all Pets are known."""
        await self._informer.wait_synced()


def _decode(record: Record) -> _Pet:
    try:
        return _decoder.decode(record.raw)
    except msgspec.ValidationError:
        # Not of a Pet's shape; the reconciler says so to whoever made it.
        return _Pet(metadata=_Metadata(), spec=_Spec())


def _id_of(record: Record, _: Meta) -> Iterable[str]:
    identity = _decode(record).status.id
    return (identity,) if identity else ()


def _uid_of(record: Record, _: Meta) -> Iterable[str]:
    return (record.uid,)
