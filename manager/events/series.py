"""One Event object: what it is about, what it is called, and how often its thing has happened."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Literal

from manager import clock
from manager.api import Resource


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """Names an object well enough for `kubectl describe` to find the Events about it.

    To be built by hand only for an object that is not at hand as a model; `of` does it otherwise.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""

    @classmethod
    def of(cls, obj: Resource) -> ObjectReference:
        """Return the reference to an object as it was read."""
        meta = obj.metadata
        return cls(obj.api_version, obj.kind, meta.namespace, meta.name, meta.uid, meta.resource_version)

    @property
    def subject(self) -> tuple[str, str, str, str, str]:
        """What stays the same from one version of the object to the next."""
        return (self.api_version, self.kind, self.namespace, self.name, self.uid)

    def to_wire(self) -> dict[str, str]:
        """Return the JSON form of `involvedObject`."""
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }
        return {key: value for key, value in fields.items() if value}

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


# What the API server takes.
MESSAGE_BYTES = 1024
REASON_BYTES = 128

_ELLIPSIS = "…"


def bounded(text: str, limit: int) -> str:
    """Return `text` as at most `limit` bytes of UTF-8, with an ellipsis where something was cut off."""
    if text.isascii() and len(text) <= limit:
        return text
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > limit:
        encoded = encoded[: limit - len(_ELLIPSIS.encode())]
        return encoded.decode("utf-8", "ignore") + _ELLIPSIS
    return encoded.decode("utf-8")


_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST = 253


class EventNames:
    """Gives each Event a name of its own: the object's name, a dot, and the time in hex, as is usual."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._last = 0

    def next(self, reference: ObjectReference) -> str:
        """Return a name that was not given before."""
        # The clock tells microseconds; the rest is chance, so that two processes do not meet.
        nanoseconds = int(clock.now().timestamp() * 1_000_000) * 1_000 + self._rng.randrange(1_000)
        self._last = max(self._last + 1, nanoseconds)
        suffix = f".{self._last:x}"
        base = reference.name[: _LONGEST - len(suffix)].rstrip("-.")
        # Some kinds allow names that an Event may not have, such as the `system:node` of RBAC.
        return (base if _SUBDOMAIN.fullmatch(base) else reference.kind.lower()) + suffix


EventType = Literal["Normal", "Warning"]


@dataclass(slots=True, eq=False)
class Series:
    """The same thing happening to the same object, any number of times: one Event object on the server."""

    reference: ObjectReference
    type: EventType
    reason: str
    name: str
    """The name of the Event object."""
    first: datetime
    last: datetime
    message: str = ""
    count: int = 0
    stored: bool = False
    """Whether the server has the Event object, as far as we know."""
    waiting: bool = False
    """Whether it waits to be sent; what happens meanwhile goes with it."""
    failures: int = 0
    """How often in a row the server has failed on it."""

    def happened(self, message: str, now: datetime) -> None:
        """Count one more occurrence."""
        self.count += 1
        self.message = message
        self.last = now
