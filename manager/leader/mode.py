"""Into how many ranges the work is divided: never two answers at a time, and one range is a leader's."""

from __future__ import annotations

import asyncio

from manager import clock
from manager.kube.errors import KubeError
from manager.kube.transport import Transport
from manager.leader.lease import Lease, LeaseTiming
from manager.leader.lease_client import LeaseGroup, Troubles
from manager.leader.lookout import Observation
from manager.leader.tenure import Tenure

RANGE = "range"
"""The value of the group's label that tells the Leases of ranges from those of replicas."""


def lease_of_range(name: str, number: int) -> str:
    """The name of a range's Lease: that of the first, `name`, begins the names of the others."""
    return f"{name}-{number}" if number else name


def number_of_ranges(first: Lease, name: str) -> str | None:
    """How many ranges there are, or are to be, as the first Lease, `name`, says; None if it does not."""
    said = first.annotations.get(f"{name}/shards")
    return None if said is None else str(said).removeprefix("to ")


class Mode:
    """The first range's Lease has an annotation with the number of all ranges.

    Who takes that Lease and finds another number in it, writes that the number changes, waits until the
    Leases of all other ranges are free, and only then works. Who takes another range reads the first one's
    Lease after that, and works only if that has its number. So each has written its own Lease before it reads
    the other's; the API server orders the writes, and one of them sees the other.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str,
        name: str,
        count: int,
        identity: str,
        timing: LeaseTiming,
    ) -> None:
        self.group = LeaseGroup(transport, namespace=namespace, label=f"{name}/lease")
        self._first = self.group.one(name)
        self._annotation = f"{name}/shards"
        self._count = str(count)
        self._leads = count == 1
        self._identity = identity
        self._timing = timing
        # Apart from those with one's own Lease, which is renewed all the while.
        self._troubles = Troubles()

    @property
    def problem(self) -> str | None:
        """What keeps this replica from finding out what others do; None when nothing does."""
        return self._troubles.problem

    def claimed(self, lease: Lease) -> Lease:
        """What to claim, of a Lease as it is; any range's."""
        lease = lease.labelled({self.group.label: RANGE})
        if lease.name != self._first.name or self.is_settled(lease):
            return lease
        said = lease.annotations.get(self._annotation)
        # A leader's Lease that says nothing was made by hand, or is new: there were no ranges.
        settled = said is None and self._leads
        return lease.annotated({self._annotation: self._count if settled else f"to {self._count}"})

    def is_settled(self, lease: Lease | None) -> bool:
        """Whether the first range's Lease says that there are so many as we have."""
        return lease is not None and lease.annotations.get(self._annotation) == self._count

    def other(self, lease: Lease | None) -> str | None:
        """The number of ranges, neither ours nor a leader's, that who holds the first range's Lease has."""
        if lease is None or lease.holder in {"", self._identity}:
            return None
        said = number_of_ranges(lease, self._first.name)
        return None if said in {self._count, "1"} else said

    async def settle(self, tenure: Tenure) -> None:
        """As who holds the first range's Lease: wait until nobody else can be at work."""
        views: dict[str, Observation] = {}
        while True:
            try:
                found = await self.group.read_all(timeout=self._timing.attempt_timeout)
            except KubeError as error:
                self._troubles.report(f"cannot read leases {self.group}", error)
            else:
                self._troubles.clear()
                now = clock.monotonic()
                # Each is looked at each time: for how long it has been silent is what counts.
                held = [lease for lease in found if self._is_held(lease, views, now)]
                if not held:
                    await tenure.mark(lambda lease: lease.annotated({self._annotation: self._count}))
                    return
            await asyncio.sleep(self._timing.retry_period)

    async def allows(self, view: Observation) -> bool:
        """As who holds another range's Lease, `view` being of the first one's: whether to work.

        Returns when the first one's could be read: to give the range back before, only to take it again,
        would be a loop that nothing slows down.
        """
        while True:
            known = view.version
            try:
                lease = await self._first.read(timeout=self._timing.attempt_timeout)
            except KubeError as error:
                self._troubles.report(f"cannot read lease {self._first}", error)
                await asyncio.sleep(self._timing.retry_period)
                continue
            self._troubles.clear()
            if lease is not None:
                view.saw(lease, now=clock.monotonic())
            elif view.version == known:
                view.saw_none()
            return self.is_settled(lease)

    def _is_held(self, lease: Lease, views: dict[str, Observation], now: float) -> bool:
        if lease.name == self._first.name or lease.labels.get(self.group.label) != RANGE:
            return False
        view = views.get(lease.name)
        if view is None:
            view = Observation(identity=self._identity, timing=self._timing)
            views[lease.name] = view
        view.saw(lease, now=now)
        return lease.holder != "" and view.expired_for(now) < 0
