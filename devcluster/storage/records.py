"""Records of the store: objects, their keys, changes, and errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson


class Exists(Exception):
    """Error for a create whose key already has an object."""


class Missing(Exception):
    """Error for a key that has no object."""


class VersionConflict(Exception):
    """Error for an update of an object that has changed since the caller read it."""


class Expired(Exception):
    """Error for a version before the history; `oldest` is the first version that `History.since` accepts."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"version {asked} is gone, {oldest} is the oldest")
        self.asked = asked
        self.oldest = oldest


class Overflow(Exception):
    """Error of a watch whose unread changes exceed a limit, in number or in bytes."""


class JournalFailed(Exception):
    """Error of a journal that cannot be read or written; the message has the reason."""


Object = dict[str, Any]


class Key(NamedTuple):
    """Key of an object; `namespace` is empty for a cluster-scoped object."""

    group: str
    plural: str
    namespace: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Stored:
    """Object at one version, as JSON; the caller must not change `labels`."""

    key: Key
    version: int
    uid: str
    labels: Mapping[str, str]
    data: bytes

    def decode(self) -> Object:
        """Decode the object; every call returns a new copy."""
        decoded: Object = orjson.loads(self.data)
        return decoded

    @classmethod
    def of(cls, key: Key, version: int, obj: Object) -> Stored:
        """Set the resourceVersion of `obj`, and return it encoded for the store."""
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(version)
        # orjson's result keeps a buffer of several KiB; a copy has the size of the object.
        data = bytes(memoryview(orjson.dumps(obj)))
        return cls(key, version, metadata.get("uid", ""), metadata.get("labels") or {}, data)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Change:
    """Change of one object: `old` is None for a create, `new` is None for a delete.

    For a delete, `final` is the last state with the version of the delete, as watches report it.
    """

    version: int
    key: Key
    old: Stored | None
    new: Stored | None
    final: Stored | None = None

    @property
    def size(self) -> int:
        """Size of the resulting object, in bytes."""
        kept = self.new or self.final
        return len(kept.data) if kept is not None else 0
