"""One replica's part in an election: standby, then leader, until it stops or loses."""

from __future__ import annotations

import asyncio
from random import Random

from manager import clock
from manager.kube.transport import Transport
from manager.leader.candidacy import Claim
from manager.leader.holding import Fence, Holding
from manager.leader.leadership import Leadership
from manager.leader.lease import LeaseTiming
from manager.leader.lease_client import LeaseClient
from manager.leader.lookout import Lookout
from manager.leader.mode import Mode
from manager.logs import get_logger
from manager.metrics import Metrics
from manager.watchdog import Watchdog

_log = get_logger("leader")


class LeaderElector:
    """Takes part in the election of one leader among the replicas that name the same Lease. Used once.

    `run` is the election. `elected` is set when this replica becomes the leader. On a clean stop the manager
    lets the leader's work end while `run` goes on renewing, and calls `release` then.

    The promise is that two replicas never write as leaders at the same time, as long as their clocks run at
    rates that differ by less than `lease_duration / renew_deadline`. What it cannot cover:

    - a person who edits or deletes the Lease under a running leader;
    - a write that waits inside the API server for longer than the difference of the two;
    - a process that is frozen just between asking for the time, which is the last thing it does before it
      hands a write to the socket, and the system call: it sends that one write when it goes on. So it is with
      bytes that the event loop or the kernel holds already, until `fence` resets their connections.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str,
        name: str,
        identity: str,
        rng: Random,
        metrics: Metrics,
        timing: LeaseTiming,
        watchdog: Watchdog | None = None,
    ) -> None:
        """`identity` must be this process's alone (`new_identity`). `watchdog` ends the process when it is
        still there shortly before another one may take over.
        """
        leases = LeaseClient(transport, namespace=namespace, name=name)
        self.identity = identity
        self._name = name
        self._lookout = Lookout(leases, identity=identity, timing=timing, rng=rng)
        mode = Mode(transport, namespace=namespace, name=name, count=1, identity=identity, timing=timing)
        self._holding = Holding(
            leases,
            self._lookout,
            Fence(transport, watchdog or Watchdog(), timing),
            identity=identity,
            timing=timing,
            rng=rng,
            metrics=metrics,
            mode=mode,
            first=self._lookout.of(name),
            began=lambda: _log.info("became the leader", lease=str(leases), identity=identity),
        )
        self._running = False
        self._stopping = False
        self._over = asyncio.Event()

    @property
    def elected(self) -> asyncio.Event:
        """Set when this replica becomes the leader."""
        return self._holding.held

    @property
    def leadership(self) -> Leadership:
        """The fence for effects outside of the cluster."""
        return self._holding.leadership

    @property
    def leading(self) -> bool:
        """Whether this replica is the leader now; not from the renew deadline on, whatever ran since."""
        deadline = self._holding.deadline
        return (
            self.elected.is_set()
            and deadline is not None
            and not self._stopping
            and clock.monotonic() < deadline
        )

    @property
    def leader(self) -> str:
        """The identity of who leads, as far as this replica knows; empty while nobody does."""
        return self.identity if self.leading else self._lookout.of(self._name).holder

    @property
    def problem(self) -> str | None:
        """What keeps this replica from reading, taking or renewing the lease; None when nothing does."""
        looking = None if self.elected.is_set() else self._lookout.problem
        return self._holding.problem or looking

    async def run(self) -> None:
        """Take part until `release` is called.

        Raises LeadershipLost when this replica was the leader and could not renew in time, or finds another
        holder. The transport is fenced by then: no write leaves any more, and those in flight are cut.
        When cancelled, it leaves the lease to expire.
        """
        self._running = True
        try:
            if not self._stopping:
                self._holding.want()
                claim = await self._win()
                if claim is not None:
                    await self._holding.hold(claim)
        finally:
            self._holding.ended("the election is over")
            self._over.set()

    async def release(self, *, within: float = 5.0) -> None:
        """End the election, and give the lease back if we hold it: another replica takes over at once.

        To be called when the leader's work has ended. Returns when `run` is about to, after `within` seconds
        or one request's time at most. Does not raise when the lease cannot be released.
        """
        self._stopping = True
        self._holding.give_back_within = within
        self._holding.give_up()
        if self._running:
            await self._over.wait()

    async def _win(self) -> Claim | None:
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(self._lookout.run(), name="look at the lease")
            try:
                return await self._holding.win()
            finally:
                looking.cancel()
