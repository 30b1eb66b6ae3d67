"""Which replicas there are: each is known by a Lease of its own."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from hashlib import blake2b
from random import Random

from manager import clock
from manager.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from manager.leader.lease import Lease, LeaseTiming
from manager.leader.lease_client import LeaseGroup, Troubles
from manager.leader.lookout import BELIEVED, Lookout, Observation, pause

MEMBER = "member"
"""What the group's label begins with of a replica's own Lease; then comes into how many ranges it divides."""

# Renewals come a little early rather than late.
_RENEW = (0.9, 1.0)


class Membership:
    """Makes this replica known to the others of a program, and knows who they are.

    It grants nothing: a replica that is taken for gone, and is not, holds its ranges as long as it renews
    them. But one that cannot make itself known is no member in its own eyes either, and gives them up.
    """

    def __init__(
        self,
        group: LeaseGroup,
        lookout: Lookout,
        *,
        name: str,
        count: int,
        identity: str,
        timing: LeaseTiming,
        rng: Random,
    ) -> None:
        """`name` begins the names of the Leases. The caller runs `lookout`, which is of the group."""
        self._group = group
        self._lookout = lookout
        self._identity = identity
        self._kind = f"{MEMBER}-{count}"
        self._timing = timing
        self._rng = rng
        self._troubles = Troubles()
        self._name = name
        self._leases = group.one(self._lease_of(identity))
        self._lease: Lease | None = None
        self._known_until = -math.inf
        self._annotation = f"{name}/ready"
        self._ready = frozenset[int]()
        self._wake = asyncio.Event()

    def _lease_of(self, identity: str) -> str:
        digest = blake2b(identity.encode(), digest_size=8).hexdigest()
        return f"{self._name}-{MEMBER}-{digest}"

    @property
    def problem(self) -> str | None:
        """What keeps this replica from making itself known; None when nothing does."""
        return self._troubles.problem

    @property
    def members(self) -> frozenset[str]:
        """The identities of all replicas that are there, this one among them once the others can know."""
        now = clock.monotonic()
        others = {view.holder for view in self._others(self._kind) if self._gone_at(view) > now}
        return frozenset(others | {self._identity}) if now < self._known_until else frozenset(others)

    def tell_ready(self, numbers: frozenset[int]) -> None:
        """Make known which ranges this replica waits for, and knows the objects of."""
        if numbers - self._ready:
            self._wake.set()
        self._ready = numbers

    def is_awaited(self, number: int) -> bool:
        """Whether another replica waits for a range, and knows its objects."""
        now = clock.monotonic()
        for view in self._others(self._kind):
            ready = "" if view.lease is None else str(view.lease.annotations.get(self._annotation, ""))
            if self._gone_at(view) > now and str(number) in ready.split(","):
                return True
        return False

    def changes_at(self) -> float:
        """The loop time at which the first of them is gone unless it renews; infinity if none can be."""
        now = clock.monotonic()
        times = [self._known_until, *map(self._gone_at, self._others(self._kind))]
        return min((each for each in times if each > now), default=math.inf)

    async def run(self, *, cleans: Callable[[], bool]) -> None:
        """Renew this replica's Lease until cancelled; while `cleans`, delete those of who is gone."""
        while True:
            again = clock.monotonic() + self._timing.retry_period * self._rng.uniform(*_RENEW)
            self._wake.clear()
            await self._renew()
            if cleans():
                await self._bury(until=again)
            await pause(self._wake, until=again)

    async def leave(self, *, within: float) -> None:
        """Once `run` has ended: delete this replica's Lease, which tells the others. Does not raise."""
        self._known_until = -math.inf
        try:
            async with asyncio.timeout(within):
                await self._forget()
        except (KubeError, TimeoutError) as error:
            self._troubles.report(f"cannot delete lease {self._leases}", error)

    async def _forget(self) -> None:
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
            # Once more where it is gone: it was deleted as that of a replica that was silent for too long.
            renewed = await self._write() or await self._write()
        except KubeError as error:
            self._troubles.report(f"cannot renew lease {self._leases}", error)
        else:
            if renewed:
                self._troubles.clear()

    async def _write(self) -> bool:
        """Write this replica's Lease; False if the server has none, so that the next one is a new one."""
        base = self._lease or Lease.new(namespace=self._leases.namespace, name=self._leases.name)
        base = base.labelled({self._group.label: self._kind})
        base = base.annotated({self._annotation: ",".join(map(str, sorted(self._ready)))})
        wanted = base.claimed(identity=self._identity, seconds=self._timing.lease_seconds, now=clock.now())
        timeout = self._timing.attempt_timeout
        sent = clock.monotonic()
        wanted = wanted.sent(self._timing.clock, sent)
        try:
            self._lease = await self._leases.write(wanted, timeout=timeout)
        except (Conflict, AlreadyExists):
            # By somebody, or by a renewal of ours whose answer was lost. The next one builds on it.
            self._lease = await self._leases.read(timeout=timeout)
            return self._lease is not None
        except NotFound:
            self._lease = None
            if base.version is None:
                raise  # there is no such namespace
            return False
        self._known_until = sent + self._timing.renew_deadline
        return True

    async def _bury(self, *, until: float) -> None:
        """Delete the Leases of who is gone, as many as there is time for: nothing may delay a renewal.

        At once: who starts now would take them for members, and leave their ranges to them. Who was only
        frozen makes another.
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
                pass  # it is alive, or somebody else was faster
            except KubeError as error:
                self._troubles.report(f"cannot delete lease {leases}", error)

    def _gone_at(self, view: Observation) -> float:
        return min(view.expires_at, view.since + BELIEVED * self._timing.lease_duration)

    def _others(self, kind: str) -> Iterator[Observation]:
        for view in self._lookout:
            lease = view.lease
            if (
                lease is not None
                and f"{lease.labels.get(self._group.label)}-".startswith(f"{kind}-")
                and lease.holder not in {"", self._identity}
                # Anybody who may write a Lease can label it.
                and lease.name == self._lease_of(lease.holder)
            ):
                yield view
