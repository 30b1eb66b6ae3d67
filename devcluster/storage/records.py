"""Stored objects, their keys and changes, and the errors of the store."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson


class Exists(Exception):
    """An object with that key exists."""


class Missing(Exception):
    """No object with that key exists."""


class VersionConflict(Exception):
    """The object is at another version than the caller has seen."""


class Expired(Exception):
    """A version that is older than the history; `oldest` is the first available version."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"version {asked} is gone, {oldest} is the oldest")
        self.asked = asked
        self.oldest = oldest


class Overflow(Exception):
    """A watch with more unread changes than its limit."""


class JournalFailed(Exception):
    """A journal that cannot be written; the text has the reason."""


Object = dict[str, Any]


class Key(NamedTuple):
    """The key of an object; `namespace` is empty for a cluster-scoped one."""

    group: str
    plural: str
    namespace: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Stored:
    """An object at one version, as JSON; `labels` must not be changed."""

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
        """Set the version of `obj`, and encode it for the store."""
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(version)
        # orjson's result keeps a buffer of several KiB; a copy has the size of the object.
        data = bytes(memoryview(orjson.dumps(obj)))
        return cls(key, version, metadata.get("uid", ""), metadata.get("labels") or {}, data)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A write: `old` is None for a new object, `new` is None for a removed object.

    For a removal, `final` is the last state with the version of the removal, as watches report it.
    """

    version: int
    key: Key
    old: Stored | None
    new: Stored | None
    final: Stored | None = None

    @property
    def size(self) -> int:
        """The bytes of the resulting object."""
        kept = self.new or self.final
        return len(kept.data) if kept is not None else 0
