"""The replicas of a program: each is known by a Lease of its own."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from hashlib import blake2b

from manager.election.lease import ElectionConfig, Lease, Leases
from manager.election.lease_watch import BELIEVED, LastError, LeaseObservation, LeaseWatcher, pause
from manager.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from manager.util import clock

MEMBER = "member"
"""The beginning of the group's label of a replica's own Lease; its end is the replica's number of shards."""


class ReplicaRegistry:
    """Registry of a program's replicas, in which this replica registers itself.

    It grants nothing: a replica that is taken for gone holds its shards as long as it renews them. One that
    cannot register is no member in its own eyes either.
    """

    def __init__(self, config: ElectionConfig, group: Leases, watcher: LeaseWatcher, *, count: int) -> None:
        """`count` is the number of shards. The caller runs `watcher`, which watches the group."""
        self._config = config
        self._name = config.name
        self._identity = config.identity
        self._timing = config.timing
        self._group = group
        self._watcher = watcher
        self._kind = f"{MEMBER}-{count}"
        self._error = LastError()
        self._leases = group.one(self._lease_of(config.identity))
        self._lease: Lease | None = None
        self._known_until = -math.inf
        self._annotation = f"{config.name}/ready"
        self._ready = frozenset[int]()
        self._wake = asyncio.Event()

    def _lease_of(self, identity: str) -> str:
        digest = blake2b(identity.encode(), digest_size=8).hexdigest()
        return f"{self._name}-{MEMBER}-{digest}"

    @property
    def problem(self) -> str | None:
        """Return why this replica cannot register; None when it can."""
        return self._error.problem

    @property
    def members(self) -> frozenset[str]:
        """Return the identities of all live replicas, including this one once the others can know it."""
        now = clock.monotonic()
        others = {view.holder for view in self._others(self._kind) if self._gone_at(view) > now}
        return frozenset(others | {self._identity}) if now < self._known_until else frozenset(others)

    def publish_ready(self, numbers: frozenset[int]) -> None:
        """Publish the shards that this replica waits for, and knows the objects of."""
        if numbers - self._ready:
            self._wake.set()
        self._ready = numbers

    def is_awaited(self, number: int) -> bool:
        """Return whether another replica waits for a shard, and knows its objects."""
        now = clock.monotonic()
        for view in self._others(self._kind):
            ready = "" if view.lease is None else str(view.lease.annotations.get(self._annotation, ""))
            if self._gone_at(view) > now and str(number) in ready.split(","):
                return True
        return False

    def changes_at(self) -> float:
        """Return the loop time at which the first replica is gone unless it renews; infinity for never."""
        now = clock.monotonic()
        times = [self._known_until, *map(self._gone_at, self._others(self._kind))]
        return min((each for each in times if each > now), default=math.inf)

    async def run(self, *, cleans: Callable[[], bool]) -> None:
        """Renew this replica's Lease until cancelled; while `cleans`, delete the Leases of dead replicas."""
        while True:
            again = clock.monotonic() + self._config.renewal_pause()
            self._wake.clear()
            await self._renew()
            if cleans():
                await self._delete_dead(until=again)
            await pause(self._wake, until=again)

    async def leave(self, *, within: float) -> None:
        """Delete this replica's Lease, which tells the others, once `run` has ended. Does not raise."""
        self._known_until = -math.inf
        try:
            async with asyncio.timeout(within):
                await self._delete()
        except (KubeError, TimeoutError) as error:
            self._error.report(f"cannot delete lease {self._leases}", error)

    async def _delete(self) -> None:
        while True:
            lease = self._lease or await self._leases.read(timeout=self._timing.attempt_timeout)
            if lease is None:
                return
            self._lease = None
            try:
                await self._leases.delete(lease, timeout=self._timing.attempt_timeout)
            except Conflict:
                continue
            except NotFound:
                pass
            return

    async def _renew(self) -> None:
        try:
            # Once more where it is gone: another replica took this one for dead, and deleted it.
            renewed = await self._write() or await self._write()
        except KubeError as error:
            self._error.report(f"cannot renew lease {self._leases}", error)
        else:
            if renewed:
                self._error.clear()

    async def _write(self) -> bool:
        """Write this replica's Lease; False if the server has none, so that the next one is a new one."""
        base = self._lease or Lease.new(namespace=self._leases.namespace, name=self._leases.name)
        base = base.labelled({self._group.label: self._kind})
        base = base.annotated({self._annotation: ",".join(map(str, sorted(self._ready)))})
        timeout = self._timing.attempt_timeout
        try:
            self._lease, sent = await self._leases.claim(
                base, identity=self._identity, timing=self._timing, timeout=timeout
            )
        except (Conflict, AlreadyExists):
            # Written by others, or by a renewal of ours whose answer was lost. The next one builds on it.
            self._lease = await self._leases.read(timeout=timeout)
            return self._lease is not None
        except NotFound:
            self._lease = None
            if base.version is None:
                raise  # there is no such namespace
            return False
        self._known_until = sent + self._timing.renew_deadline
        return True

    async def _delete_dead(self, *, until: float) -> None:
        """Delete the Leases of dead replicas, as many as there is time for: nothing may delay a renewal.

        A replica that starts now would take them for members, and leave shards to them.
        """
        for view in list(self._others(MEMBER)):
            now, lease = clock.monotonic(), view.lease
            if now >= until:
                return
            if lease is None or now < self._gone_at(view):
                continue
            leases = self._group.one(lease.name)
            try:
                await leases.delete(lease, timeout=min(until - now, self._timing.attempt_timeout))
            except (Conflict, NotFound):
                pass  # it is alive, or another replica was faster
            except KubeError as error:
                self._error.report(f"cannot delete lease {leases}", error)

    def _gone_at(self, view: LeaseObservation) -> float:
        return min(view.expires_at, view.since + BELIEVED * self._timing.lease_duration)

    def _others(self, kind: str) -> Iterator[LeaseObservation]:
        for view in self._watcher:
            lease = view.lease
            if (
                lease is not None
                and f"{lease.labels.get(self._group.label)}-".startswith(f"{kind}-")
                and lease.holder not in {"", self._identity}
                # Every account that may write a Lease can label it.
                and lease.name == self._lease_of(lease.holder)
            ):
                yield view
