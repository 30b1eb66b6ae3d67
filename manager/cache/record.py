"""One object, as the cache keeps it."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from manager.api import ObjectKey, Resource
from manager.cache.meta import Meta

__all__ = ["Record"]

R = TypeVar("R", bound=Resource)


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
