"""Leases: the configuration of an election, the record of a holder and its last renewal, and a client."""

from __future__ import annotations

import math
import socket
import uuid
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Self
from urllib.parse import quote

import orjson

from manager.kube.decoding import Listing, json_object, not_a, watch_events
from manager.kube.errors import NotFound
from manager.kube.transport import Transport
from manager.kube.wire import LONGEST
from manager.telemetry.metrics import Metrics
from manager.telemetry.watchdog import Watchdog
from manager.util.duration import format_duration
from manager.util.loop import own_turn
from manager.util.nesting import MOST_LEVELS, is_too_deep

RENEW_EARLY = (0.9, 1.0)
"""The range of pauses between two renewals, as fractions of the retry period: rather early than late."""

_RETRY_JITTER = 1.2
_MOST = 2**31 - 1  # the limit of the server's integer types
_MICRO_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"
_VERSION_DIGITS = 20  # the digits of 64 bits
_CUT = 4096  # characters kept of another writer's text; replicas write shorter texts
_RENEW_TIME = "renewTime"
_RELEASED_SECONDS = 1  # the server requires more than zero

# Leases per answer. Each is at most as large as etcd allows, so the answer stays below the read limit.
_PAGE = 40
# The size in bytes above which only an outline of a Lease is kept: other clients may create large ones.
_LARGE = 32 * 1024
_WATCH_SECONDS = (300.0, 600.0)


def new_identity(rng: Random) -> str:
    """Return `<host name>_<uuid>`, new for each process.

    A container that is restarted in the same pod must not use its predecessor's lease. So `rng` must not have
    the same seed in two processes.
    """
    return f"{socket.gethostname()}_{uuid.UUID(int=rng.getrandbits(128), version=4)}"


def host_clock() -> str:
    """Return a name for the monotonic clock of this host, or "" if there is none.

    Processes with the same host name and kernel boot ID read the same clock. The host name is included
    because machines that were cloned while running may have the same boot ID, but different clocks.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""
    return f"{socket.gethostname()}/{boot}"


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """The three durations of an election in seconds; a ValueError names the flag if they do not fit together.

    A leader that has not renewed for `renew_deadline` stops. Another replica takes over when the Lease has
    not changed for `lease_duration`. The difference between the two is the margin for clocks with different
    rates, and for the old leader's last writes. `retry_period` is the pause between renewals, and between a
    standby's checks. `clock` names this process's monotonic clock (`host_clock`) if other processes can read
    it.
    """

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    clock: str = ""

    def __post_init__(self) -> None:
        lease, renew, retry = (
            (f"--leader-elect-{name.replace('_', '-')}", getattr(self, name))
            for name in ("lease_duration", "renew_deadline", "retry_period")
        )
        for flag, seconds in (lease, renew, retry):
            if not (math.isfinite(seconds) and seconds > 0):
                raise ValueError(f"{flag} must be longer than zero, not {seconds:g}s")
        if self.lease_seconds > _MOST:
            raise ValueError(f"{lease[0]} must be at most {_MOST}s, not {self.lease_seconds}s")
        for longer, than, shorter, why in (
            (lease, 1, renew, "the leader has to stop before the others take over"),
            (renew, _RETRY_JITTER, retry, "the leader needs time for more than one try"),
        ):
            if longer[1] <= than * shorter[1]:
                flags = [f"{flag} ({format_duration(seconds)})" for flag, seconds in (longer, shorter)]
                times = f"{than:g} times " if than > 1 else ""
                raise ValueError(f"{flags[0]} must be longer than {times}{flags[1]}: {why}")

    @property
    def lease_seconds(self) -> int:
        """Return `lease_duration` as the Lease stores it: whole seconds, rounded up for safety."""
        return math.ceil(self.lease_duration)

    @property
    def attempt_timeout(self) -> float:
        """Return the time limit of a request in seconds, which leaves time for a second request."""
        return max(self.retry_period, self.renew_deadline / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionConfig:
    """The Lease of an election, and the replica that takes part in the election.

    `name` is the leader's Lease; the names of other Leases begin with it. `transport` is fenced when a Lease
    is lost. `watchdog` ends the process if it still runs shortly before another process may take over.
    """

    transport: Transport
    namespace: str
    name: str
    identity: str
    rng: Random
    metrics: Metrics
    timing: LeaseTiming = LeaseTiming()
    watchdog: Watchdog = field(default_factory=Watchdog)

    def renewal_pause(self) -> float:
        """Return the seconds from one renewal to the next."""
        return self.timing.retry_period * self.rng.uniform(*RENEW_EARLY)


@dataclass(frozen=True, slots=True)
class Lease:
    """A version of a `coordination.k8s.io/v1` Lease, as the server has it or before it is written.

    No decision uses its timestamps except `sent_at`, because they come from another machine's clock.
    """

    metadata: dict[str, Any]
    spec: dict[str, Any]
    is_outline: bool = False
    """Whether it only shows the holder, and must not be written: see `outline`."""

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Decode the JSON of a Lease; raise ProtocolError if it is not a valid Lease."""
        document = json_object(body, "a Lease")
        metadata, spec = document.get("metadata"), document.get("spec") or {}
        if not isinstance(metadata, dict) or not isinstance(spec, dict):
            raise not_a("a Lease")
        lease = cls({key: value for key, value in metadata.items() if key != "managedFields"}, spec)
        if is_too_deep(lease.encode(), MOST_LEVELS - 1):
            # A part was removed because of its depth, so the Lease must not be written back.
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
        """Return the object's name."""
        return str(self.metadata.get("name", ""))

    @property
    def labels(self) -> dict[str, Any]:
        """Return the object's labels."""
        return self._texts("labels")

    @property
    def annotations(self) -> dict[str, Any]:
        """Return the object's annotations."""
        return self._texts("annotations")

    def _texts(self, field: str) -> dict[str, Any]:
        found = self.metadata.get(field)
        return found if isinstance(found, dict) else {}

    @property
    def holder(self) -> str:
        """Return the identity of the holder; empty if there is none."""
        holder = self.spec.get("holderIdentity")
        return "" if holder is None else str(holder)

    def sent_at(self, clock: str) -> float | None:
        """Return when the holder sent its last renewal; None if it was not measured by `clock`."""
        text, prefix = str(self.annotations.get(self._sent_key, "")), f"{self.holder} {clock} "
        if not clock or not text.startswith(prefix):
            return None
        try:
            at = float(text.removeprefix(prefix))
        except ValueError:
            return None
        return at if math.isfinite(at) else None

    @property
    def duration(self) -> float | None:
        """Return the seconds for which each renewal is valid; None if the record has no duration."""
        seconds = self.spec.get("leaseDurationSeconds")
        if isinstance(seconds, int | float) and math.isfinite(seconds) and seconds > 0:
            return float(seconds)
        return None

    @property
    def transitions(self) -> int:
        """Return how often the Lease has changed its holder."""
        count = self.spec.get("leaseTransitions")
        return count if isinstance(count, int) and 0 <= count < _MOST else 0

    @property
    def uid(self) -> str:
        """Return the object's UID: a lease that is created again after a deletion has another UID."""
        return str(self.metadata.get("uid", ""))

    @property
    def version(self) -> int | None:
        """Return the resourceVersion as a number, which orders versions; None if it is not a number."""
        version = str(self.metadata.get("resourceVersion", ""))
        return int(version) if version.isdecimal() and len(version) <= _VERSION_DIGITS else None

    @property
    def record(self) -> dict[str, Any]:
        """Return the fields that show claims and renewals; long texts are cut as in `outline`."""
        spec = _only(self.spec, "holderIdentity", "leaseDurationSeconds", _RENEW_TIME, "leaseTransitions")
        return {key: value[:_CUT] if isinstance(value, str) else value for key, value in spec.items()}

    def renews(self, other: Lease) -> bool:
        """Return whether UID, labels, annotations and spec are those of `other`, except times of renewal."""
        key = self._sent_key
        mine, others = (
            (each.uid, each.labels, {**each.annotations, key: ""}, {**each.spec, _RENEW_TIME: ""})
            for each in (self, other)
        )
        return mine == others

    def claimed(self, *, identity: str, seconds: int, now: datetime) -> Lease:
        """Return this lease, acquired at `now` by `identity`, or renewed if `identity` is the holder already.

        Fields of other clients, the resourceVersion and the UID are kept: the server refuses the write if the
        lease has changed meanwhile, or was replaced.
        """
        lease = self._held_by(identity, seconds, now)
        if self.holder != identity:
            # The number of transitions of a new lease increases only when a second holder takes it.
            first = not self.holder and not self.spec.get("acquireTime")
            lease.spec["leaseTransitions"] = self.transitions if first else self.transitions + 1
            lease.spec["acquireTime"] = lease.spec[_RENEW_TIME]
        return lease

    def released(self, *, now: datetime) -> Lease:
        """Return this lease without a holder, so that any replica can take it at once."""
        return self._held_by("", _RELEASED_SECONDS, now)

    def _held_by(self, holder: str, seconds: int, now: datetime) -> Lease:
        # Every renewal must change the record, or the server drops it as a write without changes, and the
        # others see no renewal: a clock that stands still or was set back may repeat itself.
        now = now.astimezone(UTC)
        stamp = now.strftime(_MICRO_TIME)
        if stamp == self.spec.get(_RENEW_TIME):
            stamp = (now + timedelta(microseconds=1)).strftime(_MICRO_TIME)
        holding = {"holderIdentity": holder, "leaseDurationSeconds": seconds, _RENEW_TIME: stamp}
        return Lease(self.metadata, {**self.spec, **holding})

    def sent(self, clock: str, at: float) -> Lease:
        """Return this lease with the time of its sending, `at`, by the clock named `clock`.

        Without a clock name, the lease stays unchanged.
        """
        return self.annotated({self._sent_key: f"{self.holder} {clock} {at:.6f}"}) if clock else self

    def labelled(self, labels: Mapping[str, str]) -> Lease:
        """Return this lease with these additional labels."""
        return Lease({**self.metadata, "labels": {**self.labels, **labels}}, self.spec)

    def annotated(self, annotations: Mapping[str, str]) -> Lease:
        """Return this lease with these additional annotations."""
        return Lease({**self.metadata, "annotations": {**self.annotations, **annotations}}, self.spec)

    def recreated(self) -> Lease:
        """Return this lease for creation, after it was deleted: the same holder and history."""
        return Lease(_only(self.metadata, "name", "namespace", "labels", "annotations"), self.spec)

    def outline(self, prefix: str) -> Lease:
        """Return a small copy of this large lease: only known fields, with cut labels and annotations.

        Only labels and annotations whose keys begin with `prefix` are known.
        """
        metadata = _only(self.metadata, "name", "namespace", "uid", "resourceVersion")
        for key, own in (("labels", self.labels), ("annotations", self.annotations)):
            metadata[key] = {
                name: str(own[name])[:_CUT] for name in own if name.startswith(prefix) and len(name) < _CUT
            }
        return Lease(metadata, self.record, is_outline=True)

    @property
    def _sent_key(self) -> str:
        return f"{self.name}/sent"

    @classmethod
    def new(cls, *, namespace: str, name: str) -> Self:
        """Return a new lease that has no holder, and that the server does not have yet."""
        return cls({"namespace": namespace, "name": name}, {"leaseTransitions": 0})


def _only(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


class Leases:
    """A client of one Lease, or of all Leases with a label in a namespace. Requests raise KubeError.

    A write may take effect although it raised an error; its resourceVersion makes that harmless.
    """

    def __init__(self, transport: Transport, *, namespace: str, name: str = "", label: str = "") -> None:
        self.namespace, self.name, self.label = namespace, name, label
        self._transport = transport
        # With the name in the selector, RBAC can grant the watch of a single lease.
        self._selector = {"fieldSelector": f"metadata.name={name}"} if name else {"labelSelector": label}
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"
        self._object = f"{self._collection}/{quote(name, safe='')}"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.name else f"{self.namespace}, label {self.label}"

    def one(self, name: str) -> Leases:
        """Return a client of the Lease `name`, which need not exist yet."""
        return Leases(self._transport, namespace=self.namespace, name=name)

    async def read_all(self, *, timeout: float) -> list[Lease]:
        """Return the current Leases, not from any cache."""
        if self.name:
            lease = await self.read(timeout=timeout)
            return [] if lease is None else [lease]
        listing = Listing(self._transport.request, self._collection, longest=LONGEST, deadline=timeout)
        query = {**self._selector, "limit": str(_PAGE)}
        found, resume = [], None
        while resume != "":
            page = await listing.page(query, resume or "")
            for each in page.items:
                raw = bytes(each)
                await own_turn(len(raw))
                found.append(self._decode(raw))
            resume = page.resume
        return found

    async def changes(self, *, rng: Random, silence: float) -> AsyncGenerator[tuple[Lease, bool], None]:
        """Watch the Leases: yield the current Leases, then each change, with True for a deletion.

        A stream that is silent for `silence` seconds counts as dead and raises DeadlineExceeded.
        """
        seconds = str(round(rng.uniform(*_WATCH_SECONDS)))
        query = {"watch": "true", **self._selector, "timeoutSeconds": seconds}
        async with self._transport.stream(self._collection, query=query, idle_timeout=silence) as chunks:
            async for event in watch_events(chunks):
                if event.type != "BOOKMARK":
                    yield self._decode(bytes(event.object)), event.type == "DELETED"

    async def read(self, *, timeout: float) -> Lease | None:
        """Return the current Lease, not from any cache; None if there is none."""
        try:
            return Lease.decode(await self._transport.request("GET", self._object, deadline=timeout))
        except NotFound:
            return None

    async def write(self, lease: Lease, *, timeout: float) -> Lease:
        """Create the lease if it has no version, else replace that version; return the stored lease.

        Raises Conflict, AlreadyExists or NotFound if the server has another version, or none.
        """
        new = not lease.metadata.get("resourceVersion")
        method, path = ("POST", self._collection) if new else ("PUT", self._object)
        return Lease.decode(
            await self._transport.request(method, path, body=lease.encode(), deadline=timeout)
        )

    async def delete(self, *, only: Lease | None = None, timeout: float) -> None:
        """Delete the lease; with `only`, raise Conflict or NotFound unless the server has that version."""
        body = None
        if only is not None:
            demanded = _only(only.metadata, "uid", "resourceVersion")
            body = orjson.dumps({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": demanded})
        await self._transport.request("DELETE", self._object, body=body, deadline=timeout)

    def _decode(self, raw: bytes) -> Lease:
        lease = Lease.decode(raw)
        if self.name or len(raw) <= _LARGE:
            return lease
        return lease.outline(self.label.partition("/")[0] + "/")
