"""The Lease record: read leniently, as anyone may have written it, and written as everyone expects it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import orjson

from manager.leader.errors import MalformedLease

__all__ = ["Lease"]

_MICRO_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"
_MOST_TRANSITIONS = 2**31 - 1  # what the server's type holds
_VERSION_DIGITS = 20  # of 64 bits
_RELEASED_SECONDS = 1  # the server wants more than zero


@dataclass(frozen=True, slots=True)
class Lease:
    """One version of a `coordination.k8s.io/v1` Lease, or one that is to be written.

    Its times are never used to decide anything: they come from another machine's clock.
    """

    metadata: dict[str, Any]
    spec: dict[str, Any]

    @classmethod
    def decode(cls, body: bytes | memoryview) -> Self:
        """Decode the JSON of a Lease; raise MalformedLease when it has not the shape of an object."""
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise MalformedLease("the answer of the server is not JSON") from error
        if not isinstance(document, dict):
            raise MalformedLease("the answer of the server is not an object")
        metadata, spec = document.get("metadata"), document.get("spec") or {}
        if not isinstance(metadata, dict) or not isinstance(spec, dict):
            raise MalformedLease("the answer of the server is not a Lease")
        return cls(metadata, spec)

    def encode(self) -> bytes:
        """Return the JSON to send."""
        return orjson.dumps(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": self.metadata,
                "spec": self.spec,
            }
        )

    @property
    def holder(self) -> str:
        """Identity of the holder; empty when nobody holds it."""
        holder = self.spec.get("holderIdentity")
        return "" if holder is None else str(holder)

    @property
    def duration(self) -> float | None:
        """Seconds for which the holder claims it after each renewal; None when the record does not say."""
        seconds = self.spec.get("leaseDurationSeconds")
        if isinstance(seconds, int | float) and math.isfinite(seconds) and seconds > 0:
            return float(seconds)
        return None

    @property
    def transitions(self) -> int:
        """How often it changed hands."""
        count = self.spec.get("leaseTransitions")
        return count if isinstance(count, int) and 0 <= count < _MOST_TRANSITIONS else 0

    @property
    def uid(self) -> str:
        """The object's UID: a lease that was deleted and created again is another one."""
        return str(self.metadata.get("uid", ""))

    @property
    def version(self) -> int | None:
        """The resourceVersion as a number, which orders versions; None when it is not one."""
        version = str(self.metadata.get("resourceVersion", ""))
        return int(version) if version.isdecimal() and len(version) <= _VERSION_DIGITS else None

    def claimed(self, *, identity: str, seconds: int, now: datetime) -> Lease:
        """Return this lease as held by `identity` from `now` on, or renewed when it holds it already.

        What others put into the record (labels, annotations, newer fields) is kept; the resourceVersion is
        kept too, so that the server refuses the write if the lease has changed meanwhile.
        """
        stamp = self._stamp(now)
        spec = {**self.spec, "holderIdentity": identity, "leaseDurationSeconds": seconds, "renewTime": stamp}
        if self.holder != identity:
            # A lease that has never been held changes hands for the first time when it is taken the second.
            first = not self.holder and not self.spec.get("acquireTime")
            spec["leaseTransitions"] = self.transitions if first else self.transitions + 1
            spec["acquireTime"] = stamp
        return Lease(self._sendable_metadata(), spec)

    def released(self, *, now: datetime) -> Lease:
        """Return this lease as held by nobody, for anyone to take at once."""
        spec = {
            **self.spec,
            "holderIdentity": "",
            "leaseDurationSeconds": _RELEASED_SECONDS,
            "renewTime": self._stamp(now),
        }
        return Lease(self._sendable_metadata(), spec)

    def recreated(self) -> Lease:
        """Return this lease for creation, after somebody deleted it: the same holder and history."""
        kept: dict[str, Any] = {
            key: self.metadata[key]
            for key in ("name", "namespace", "labels", "annotations")
            if key in self.metadata
        }
        return Lease(kept, self.spec)

    @classmethod
    def new(cls, *, namespace: str, name: str) -> Self:
        """Return a lease that nobody holds and the server does not know yet."""
        return cls({"namespace": namespace, "name": name}, {"leaseTransitions": 0})

    def _stamp(self, now: datetime) -> str:
        # Every renewal must change the record, or the server drops it as a write that changes nothing and
        # the others see no renewal: a clock that stands still or was set back may repeat itself.
        stamp = now.astimezone(UTC).strftime(_MICRO_TIME)
        if stamp == self.spec.get("renewTime"):
            stamp = (now.astimezone(UTC) + timedelta(microseconds=1)).strftime(_MICRO_TIME)
        return stamp

    def _sendable_metadata(self) -> dict[str, Any]:
        # The UID has to stay: without it, the server takes the replacement of a deleted lease for a creation.
        return {key: value for key, value in self.metadata.items() if key != "managedFields"}
