"""One object, as the cache keeps it, and the part of its metadata that the runtime itself looks at."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from manager.api import ObjectKey, Resource

__all__ = ["Meta", "Owner", "Record"]

R = TypeVar("R", bound=Resource)


class Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An owner reference."""

    uid: str
    kind: str = ""
    name: str = ""
    api_version: str = ""
    controller: bool = False


class Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An object's metadata as keys, owners, labels and predicates need it.

    Decoded without touching the rest of the object, and not kept: what the cache holds are the bytes.
    """

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[Owner, ...] = ()

    @property
    def controller(self) -> Owner | None:
        """The owner that manages the object, or None."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class _Metadata(msgspec.Struct):
    metadata: Meta


_metadata_decoder = msgspec.json.Decoder(_Metadata)


# Not known to the garbage collector: a record holds no reference that could close a cycle, and there may be
# hundreds of thousands of them to walk past.
class Record(msgspec.Struct, gc=False, eq=False, repr_omit_defaults=True):
    """An object's JSON and the few facts that every event asks for.

    Records are shared between the cache and all who read it: treat them as immutable. `version` is the
    resourceVersion as a number, which orders all states of all objects of a kind.
    """

    key: ObjectKey
    raw: bytes
    uid: str
    version: int
    generation: int = 0
    deleting: bool = False

    def meta(self) -> Meta:
        """Decode the metadata; each call costs a few microseconds and makes a new one."""
        return _metadata_decoder.decode(self.raw).metadata

    def decode(self, model: type[R]) -> R:
        """Decode the whole object into a new one of the caller's own.

        Raises pydantic.ValidationError when the object is not of the model's shape.
        """
        return model.decode(self.raw)
