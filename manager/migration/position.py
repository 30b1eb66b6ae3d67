"""How far a migration has come, as it is kept at the definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import msgspec

from manager.kube.decoding import Decoder
from manager.kube.errors import ProtocolError
from manager.migration.definition import Definition

__all__ = ["Position"]


class _Kept(msgspec.Struct, rename={"storage": "storageVersion", "resume": "continue"}):
    uid: str
    generation: int
    storage: str
    resume: str
    done: int


_decode = Decoder(_Kept, "a position")


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the list of all objects, before which each is stored as the definition says.

    `resume` is what the server is asked for to go on there, "" at the start: a continue token, in the
    server's own order of the list. `done` is how many objects are before it, for people.

    It holds for one definition only, and for one generation of that: were the storage version changed and
    changed back in between, objects before the place would be stored in the other version again. That
    everything else in the definition counts as well costs requests only, and no write.
    """

    resume: str = ""
    done: int = 0

    @classmethod
    def kept_at(cls, definition: Definition) -> Self | None:
        """The position that an earlier run has left, or None where there is none that holds."""
        if definition.position is None:
            return None
        try:
            kept = _decode(definition.position)
        except ProtocolError:
            return None  # somebody else's, or a later version's: the start is right for all
        holds = (kept.uid, kept.generation, kept.storage) == _identity(definition)
        return cls(kept.resume, kept.done) if holds and kept.resume else None

    def text(self, definition: Definition) -> str:
        """What is to be kept at the definition."""
        uid, generation, storage = _identity(definition)
        kept = _Kept(uid, generation, storage, self.resume, self.done)
        return msgspec.json.encode(kept).decode()


def _identity(definition: Definition) -> tuple[str, int, str]:
    return definition.uid, definition.generation, definition.storage
