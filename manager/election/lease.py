"""The Lease as a record: its holder, its last renewal, and its duration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import orjson

from manager.kube.decoding import json_object, not_a
from manager.util.nesting import MOST_LEVELS, is_too_deep

_MICRO_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"
_MOST = 2**31 - 1  # the limit of the server's types
_VERSION_DIGITS = 20  # of 64 bits
_CUT = 4096  # characters of another writer's text; no replica writes as many
_RENEW_TIME = "renewTime"
_RELEASED_SECONDS = 1  # the server wants more than zero


@dataclass(frozen=True, slots=True)
class Lease:
    """A version of a `coordination.k8s.io/v1` Lease, as the server has it or before it is written.

    Its times decide nothing, as they come from another machine's clock, except for `sent_at`.
    """

    metadata: dict[str, Any]
    spec: dict[str, Any]
    is_outline: bool = False
    """Whether it says who holds it, and is not to be written: see `outline`."""

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Decode the JSON of a Lease; raise ProtocolError when it has not the shape of one."""
        document = json_object(body, "a Lease")
        metadata, spec = document.get("metadata"), document.get("spec") or {}
        if not isinstance(metadata, dict) or not isinstance(spec, dict):
            raise not_a("a Lease")
        lease = cls({key: value for key, value in metadata.items() if key != "managedFields"}, spec)
        if is_too_deep(lease.encode(), MOST_LEVELS - 1):
            # Something was cut off, and may not be written back without it.
            raise not_a("a Lease", RecursionError())
        return lease

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
    def name(self) -> str:
        """The object's name."""
        return str(self.metadata.get("name", ""))

    @property
    def labels(self) -> dict[str, Any]:
        """The object's labels."""
        labels = self.metadata.get("labels")
        return labels if isinstance(labels, dict) else {}

    @property
    def annotations(self) -> dict[str, Any]:
        """The object's annotations."""
        annotations = self.metadata.get("annotations")
        return annotations if isinstance(annotations, dict) else {}

    @property
    def holder(self) -> str:
        """Identity of the holder; empty when there is none."""
        holder = self.spec.get("holderIdentity")
        return "" if holder is None else str(holder)

    def sent_at(self, clock: str) -> float | None:
        """Return when the holder sent its last renewal; None unless the clock of this name measured it."""
        holder, name, seconds = (*str(self.annotations.get(self._sent_key, "")).split(" "), "", "")[:3]
        if not clock or (holder, name) != (self.holder, clock):
            return None
        try:
            at = float(seconds)
        except ValueError:
            return None
        return at if math.isfinite(at) else None

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
        return count if isinstance(count, int) and 0 <= count < _MOST else 0

    @property
    def uid(self) -> str:
        """The object's UID: a lease that was deleted and created again is another one."""
        return str(self.metadata.get("uid", ""))

    @property
    def version(self) -> int | None:
        """The resourceVersion as a number, which orders versions; None when it is not one."""
        version = str(self.metadata.get("resourceVersion", ""))
        return int(version) if version.isdecimal() and len(version) <= _VERSION_DIGITS else None

    def renews(self, other: Lease) -> bool:
        """Return whether the two differ only in the time of renewal and the resourceVersion."""
        key = self._sent_key
        mine, others = (
            (each.uid, each.labels, {**each.annotations, key: ""}, {**each.spec, _RENEW_TIME: ""})
            for each in (self, other)
        )
        return mine == others

    def claimed(self, *, identity: str, seconds: int, now: datetime) -> Lease:
        """Return this lease as held by `identity` from `now` on, or renewed when it holds it already.

        Other clients' labels, annotations and newer fields stay. The resourceVersion stays too, so that the
        server refuses the write if the lease has changed meanwhile. The UID has to stay: without it, the
        server takes the replacement of a deleted lease for a creation.
        """
        stamp = self._stamp(now)
        spec = {**self.spec, "holderIdentity": identity, "leaseDurationSeconds": seconds, _RENEW_TIME: stamp}
        if self.holder != identity:
            # A lease that has never been held changes hands for the first time when it is taken the second.
            first = not self.holder and not self.spec.get("acquireTime")
            spec["leaseTransitions"] = self.transitions if first else self.transitions + 1
            spec["acquireTime"] = stamp
        return Lease(self.metadata, spec)

    def sent(self, clock: str, at: float) -> Lease:
        """Return this lease with the time `at`, by the clock of that name, at which its holder sends it.

        Without a name it stays as it is.
        """
        return self.annotated({self._sent_key: f"{self.holder} {clock} {at:.6f}"}) if clock else self

    def labelled(self, labels: Mapping[str, str]) -> Lease:
        """Return this lease with these additional labels."""
        return Lease({**self.metadata, "labels": {**self.labels, **labels}}, self.spec)

    def annotated(self, annotations: Mapping[str, str]) -> Lease:
        """Return this lease with these additional annotations."""
        return Lease({**self.metadata, "annotations": {**self.annotations, **annotations}}, self.spec)

    def released(self, *, now: datetime) -> Lease:
        """Return this lease without a holder, for any replica to take at once."""
        spec = {
            **self.spec,
            "holderIdentity": "",
            "leaseDurationSeconds": _RELEASED_SECONDS,
            _RENEW_TIME: self._stamp(now),
        }
        return Lease(self.metadata, spec)

    def recreated(self) -> Lease:
        """Return this lease for creation, after it was deleted: the same holder and history."""
        kept: dict[str, Any] = {
            key: self.metadata[key]
            for key in ("name", "namespace", "labels", "annotations")
            if key in self.metadata
        }
        return Lease(kept, self.spec)

    def outline(self, prefix: str) -> Lease:
        """Return the known parts of a lease that others have made large.

        These are the fields about its holder, and labels and annotations with keys of that prefix, each of
        them cut.
        """
        metadata: dict[str, Any] = {
            key: self.metadata[key]
            for key in ("name", "namespace", "uid", "resourceVersion")
            if key in self.metadata
        }
        for key, own in (("labels", self.labels), ("annotations", self.annotations)):
            metadata[key] = {
                name: str(own[name])[:_CUT] for name in own if name.startswith(prefix) and len(name) < _CUT
            }
        fields = ("holderIdentity", "leaseDurationSeconds", _RENEW_TIME, "leaseTransitions")
        spec = {key: self.spec[key] for key in fields if key in self.spec}
        spec = {key: value[:_CUT] if isinstance(value, str) else value for key, value in spec.items()}
        return Lease(metadata, spec, is_outline=True)

    @property
    def _sent_key(self) -> str:
        return f"{self.name}/sent"

    @classmethod
    def new(cls, *, namespace: str, name: str) -> Self:
        """Return a lease without a holder that the server does not know yet."""
        return cls({"namespace": namespace, "name": name}, {"leaseTransitions": 0})

    def _stamp(self, now: datetime) -> str:
        # Every renewal must change the record, or the server drops it as a write that changes nothing and
        # the others see no renewal: a clock that stands still or was set back may repeat itself.
        stamp = now.astimezone(UTC).strftime(_MICRO_TIME)
        if stamp == self.spec.get(_RENEW_TIME):
            stamp = (now.astimezone(UTC) + timedelta(microseconds=1)).strftime(_MICRO_TIME)
        return stamp
