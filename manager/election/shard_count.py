"""The number of shards: replicas with different numbers never work at a time, and one shard is a leader's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from manager.election.config import ElectionConfig
from manager.election.lease import LastError, Lease, LeaseGroup
from manager.election.lease_watch import LeaseObservation
from manager.kube.errors import KubeError
from manager.util import clock

SHARD = "shard"
"""The value of the group's label that tells the Leases of shards from those of replicas."""


def lease_of_shard(name: str, number: int) -> str:
    """Return the name of a shard's Lease: the name of the first one, `name`, begins the others."""
    return f"{name}-{number}" if number else name


def number_of_shards(first: Lease, name: str) -> str | None:
    """Return the number of shards that the first Lease, `name`, states or is changing to, if it does."""
    stated = first.annotations.get(f"{name}/shards")
    return None if stated is None else str(stated).removeprefix("to ")


class ShardCountAgreement:
    """A guard that keeps replicas with different numbers of shards from working at the same time.

    The first shard's Lease states the number in an annotation. A replica that takes it and finds another
    number writes that the number changes, waits until all other shards are free, and only then works. A
    replica that takes another shard reads the first one's Lease afterwards. So each has written its own Lease
    before it reads the other's, and one of them sees the other.
    """

    def __init__(self, config: ElectionConfig, *, count: int) -> None:
        self.group = LeaseGroup(config.transport, namespace=config.namespace, label=f"{config.name}/lease")
        self._identity = config.identity
        self._timing = config.timing
        self._first = self.group.one(config.name)
        self._annotation = f"{config.name}/shards"
        self._count = str(count)
        self._is_leader = count == 1
        # Apart from the errors of one's own Lease, which is renewed all the while.
        self._error = LastError()

    @property
    def problem(self) -> str | None:
        """Why this replica cannot read the Leases of the others; None when it can."""
        return self._error.problem

    def claimed(self, lease: Lease) -> Lease:
        """Return the Lease of any shard with the labels and annotations of a claim."""
        lease = lease.labelled({self.group.label: SHARD})
        if lease.name != self._first.name or self.is_settled(lease):
            return lease
        said = lease.annotations.get(self._annotation)
        # A leader's Lease without a number was made by hand, or is new: there were no shards.
        settled = said is None and self._is_leader
        return lease.annotated({self._annotation: self._count if settled else f"to {self._count}"})

    def is_settled(self, lease: Lease | None) -> bool:
        """Return whether the first shard's Lease states our number."""
        return lease is not None and lease.annotations.get(self._annotation) == self._count

    def other(self, lease: Lease | None) -> str | None:
        """Return another number than ours, and than a leader's, of the holder of the first shard's Lease."""
        if lease is None or lease.holder in {"", self._identity}:
            return None
        said = number_of_shards(lease, self._first.name)
        return None if said in {self._count, "1"} else said

    async def agree(
        self,
        lease: Lease,
        mark: Callable[[Callable[[Lease], Lease]], Awaitable[None]],
        first: LeaseObservation,
    ) -> bool:
        """Return whether this replica, which has taken `lease`, may work.

        `mark` changes the lease with a renewal; `first` observes the first shard's Lease.
        """
        if lease.name != self._first.name:
            return await self._is_first_settled(first)
        if not self.is_settled(lease):
            await self._wait_until_free()
            await mark(lambda lease: lease.annotated({self._annotation: self._count}))
        return True

    async def _wait_until_free(self) -> None:
        """Return when no replica can hold another shard."""
        views: dict[str, LeaseObservation] = {}
        while True:
            try:
                found = await self.group.read_all(timeout=self._timing.attempt_timeout)
            except KubeError as error:
                self._error.report(f"cannot read leases {self.group}", error)
            else:
                self._error.clear()
                now = clock.monotonic()
                # Observe all of them each time: the time of their silence counts.
                held = [lease for lease in found if self._is_held(lease, views, now)]
                if not held:
                    return
            await asyncio.sleep(self._timing.retry_period)

    async def _is_first_settled(self, view: LeaseObservation) -> bool:
        """Return whether the first Lease states our number, once it could be read.

        To give a shard back before, only to take it again, would be a loop without any delay.
        """
        while True:
            known = view.newest
            try:
                lease = await self._first.read(timeout=self._timing.attempt_timeout)
            except KubeError as error:
                self._error.report(f"cannot read lease {self._first}", error)
                await asyncio.sleep(self._timing.retry_period)
                continue
            self._error.clear()
            if lease is not None:
                view.saw(lease, now=clock.monotonic())
            elif view.newest == known:
                view.saw_none()
            return self.is_settled(lease)

    def _is_held(self, lease: Lease, views: dict[str, LeaseObservation], now: float) -> bool:
        if lease.name == self._first.name or lease.labels.get(self.group.label) != SHARD:
            return False
        view = views.setdefault(lease.name, LeaseObservation(identity=self._identity, timing=self._timing))
        view.saw(lease, now=now)
        return lease.holder != "" and now < view.expires_at
