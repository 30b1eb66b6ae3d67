"""The Lease as a record: who holds it, since when, and for how long."""

from __future__ import annotations

import math
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Self

import orjson

from manager.duration import format_duration
from manager.kube.decoding import json_object, not_a
from manager.nesting import MOST_LEVELS, is_too_deep


class LeadershipLost(Exception):
    """This process was the leader and may no longer write; the text says why, for the log's last line."""


def new_identity(rng: Random) -> str:
    """Return `<host name>_<uuid>`, new for each process.

    The host name (in a cluster, the pod's) is for people. The UUID makes it unique: a container that is
    started again in the same pod must not take its predecessor's lease for its own. So `rng` must not be
    seeded alike in two replicas.
    """
    return f"{socket.gethostname()}_{uuid.UUID(int=rng.getrandbits(128), version=4)}"


def host_clock() -> str:
    """Return what names the monotonic clock of this host, or "" where that cannot be told.

    Processes of one host name and one boot of the kernel read the same clock: a container and the one that is
    started in its place in the same pod, for example. The host name is a part of it because machines that
    were cloned while they ran may have the boot in common, and not the clock.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""
    return f"{socket.gethostname()}/{boot}"


_LEASE = "--leader-elect-lease-duration"
_RENEW = "--leader-elect-renew-deadline"
_RETRY = "--leader-elect-retry-period"

_RETRY_JITTER = 1.2


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """The three durations of an election, in seconds.

    A leader that has not renewed for `renew_deadline` stops; the others wait `lease_duration` before they
    take over. The difference is the margin for clocks that run at different rates and for the last writes
    of the old leader to die: with 15 and 10, clocks may differ by a fifth in rate. Raises ValueError, which
    names the flag, when the three do not fit together.
    """

    lease_duration: float = 15.0
    """How long the others wait after the last change of the lease before they take it."""
    renew_deadline: float = 10.0
    """How long a leader goes on without a renewal that it knows succeeded."""
    retry_period: float = 2.0
    """Time between renewals, and between a standby's looks at the lease."""
    clock: str = ""
    """Names the monotonic clock of this process (`host_clock`); empty if no other process reads the same."""

    def __post_init__(self) -> None:
        flags = {_LEASE: self.lease_duration, _RENEW: self.renew_deadline, _RETRY: self.retry_period}
        for flag, value in flags.items():
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{flag} must be longer than zero, not {value:g}s")
        if self.lease_seconds > _MOST:
            raise ValueError(f"{_LEASE} must be at most {_MOST}s, not {self.lease_seconds}s")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError(
                f"{_LEASE} ({format_duration(self.lease_duration)}) must be longer than "
                f"{_RENEW} ({format_duration(self.renew_deadline)}): "
                "the leader has to stop before the others take over"
            )
        if self.renew_deadline <= self.retry_period * _RETRY_JITTER:
            raise ValueError(
                f"{_RENEW} ({format_duration(self.renew_deadline)}) must be longer than {_RETRY_JITTER:g} "
                f"times {_RETRY} ({format_duration(self.retry_period)}): "
                "the leader needs time for more than one try"
            )

    @property
    def lease_seconds(self) -> int:
        """The lease duration as the record has it: whole seconds, rounded up, so that nobody waits less."""
        return math.ceil(self.lease_duration)

    @property
    def attempt_timeout(self) -> float:
        """Seconds for one request: the deadline leaves time for a second one, on a new connection."""
        return max(self.retry_period, self.renew_deadline / 2)


_MICRO_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"
_MOST = 2**31 - 1  # what the server's types hold
_VERSION_DIGITS = 20  # of 64 bits
_CUT = 4096  # characters of a text of somebody else's; no replica writes as many
_RENEW_TIME = "renewTime"
_RELEASED_SECONDS = 1  # the server wants more than zero


@dataclass(frozen=True, slots=True)
class Lease:
    """One version of a `coordination.k8s.io/v1` Lease, or one that is to be written.

    Its times are used to decide nothing, as they come from another machine's clock, except for `sent_at`.
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
        """Identity of the holder; empty when nobody holds it."""
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
        """Whether nothing is different but when it was renewed, and how often it was written."""
        key = self._sent_key
        mine, others = (
            (each.uid, each.labels, {**each.annotations, key: ""}, {**each.spec, _RENEW_TIME: ""})
            for each in (self, other)
        )
        return mine == others

    def claimed(self, *, identity: str, seconds: int, now: datetime) -> Lease:
        """Return this lease as held by `identity` from `now` on, or renewed when it holds it already.

        What others put into the record (labels, annotations, newer fields) is kept; the resourceVersion is
        kept too, so that the server refuses the write if the lease has changed meanwhile. The UID has to
        stay: without it, the server takes the replacement of a deleted lease for a creation.
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
        """Return this lease with these labels beside those that it has."""
        return Lease({**self.metadata, "labels": {**self.labels, **labels}}, self.spec)

    def annotated(self, annotations: Mapping[str, str]) -> Lease:
        """Return this lease with these annotations beside those that it has."""
        return Lease({**self.metadata, "annotations": {**self.annotations, **annotations}}, self.spec)

    def released(self, *, now: datetime) -> Lease:
        """Return this lease as held by nobody, for anyone to take at once."""
        spec = {
            **self.spec,
            "holderIdentity": "",
            "leaseDurationSeconds": _RELEASED_SECONDS,
            _RENEW_TIME: self._stamp(now),
        }
        return Lease(self.metadata, spec)

    def recreated(self) -> Lease:
        """Return this lease for creation, after somebody deleted it: the same holder and history."""
        kept: dict[str, Any] = {
            key: self.metadata[key]
            for key in ("name", "namespace", "labels", "annotations")
            if key in self.metadata
        }
        return Lease(kept, self.spec)

    def outline(self, prefix: str) -> Lease:
        """Return what has to be known of a lease that somebody has made large: the fields that tell who holds
        it, and labels and annotations with keys of that prefix, each of them cut.
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
        """Return a lease that nobody holds and the server does not know yet."""
        return cls({"namespace": namespace, "name": name}, {"leaseTransitions": 0})

    def _stamp(self, now: datetime) -> str:
        # Every renewal must change the record, or the server drops it as a write that changes nothing and
        # the others see no renewal: a clock that stands still or was set back may repeat itself.
        stamp = now.astimezone(UTC).strftime(_MICRO_TIME)
        if stamp == self.spec.get(_RENEW_TIME):
            stamp = (now.astimezone(UTC) + timedelta(microseconds=1)).strftime(_MICRO_TIME)
        return stamp
