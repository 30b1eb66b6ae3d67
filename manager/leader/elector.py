"""One replica's part in an election: standby, then leader, until it stops or loses."""

from __future__ import annotations

import asyncio
from random import Random

from manager import clock
from manager.kube.errors import KubeError
from manager.kube.transport import Transport
from manager.leader.candidacy import Candidacy, Claim
from manager.leader.leadership import Leadership
from manager.leader.lease import LeadershipLost, Lease, LeaseTiming
from manager.leader.lease_client import LeaseClient, Troubles
from manager.leader.lookout import Lookout
from manager.leader.tenure import Tenure
from manager.logs import get_logger
from manager.metrics import Metrics
from manager.watchdog import Watchdog

# Part of the time there is to wait after a failure.
_PAUSE = 0.04


_log = get_logger("leader")

_LOST = "the lease was lost"
# Parts of the time from the renew deadline until others may take over: to end in order, and to end at all.
_STOP_WITHIN = 0.8
_GONE_WITHIN = 0.95


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
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
        watchdog: Watchdog | None = None,
    ) -> None:
        """`identity` must be this process's alone (`new_identity`). Durations, in seconds, are those of
        `LeaseTiming`, and raise ValueError when they do not fit together. `watchdog` ends the process when it
        is still there shortly before another one may take over.
        """
        self.identity = identity
        self.elected = asyncio.Event()
        self.leadership = Leadership(elected=False)
        self._transport = transport
        self._watchdog = watchdog or Watchdog()
        self._timing = LeaseTiming(lease_duration, renew_deadline, retry_period)
        self._leases = LeaseClient(transport, namespace=namespace, name=name)
        self._rng = rng
        self._troubles = Troubles()
        self._status = metrics.leader_status.labels(name=name)
        self._status.set(0)
        self._lookout = Lookout(
            self._leases, identity=identity, timing=self._timing, rng=rng, troubles=self._troubles
        )
        self._candidacy = Candidacy(
            self._leases, self._lookout, identity=identity, timing=self._timing, troubles=self._troubles
        )
        self._tenure: Tenure | None = None
        self._running = False
        self._stopping = False
        self._over = asyncio.Event()
        self._release_within = renew_deadline

    @property
    def leading(self) -> bool:
        """Whether this replica is the leader now; not from the renew deadline on, whatever ran since."""
        tenure = self._tenure
        return tenure is not None and not self._stopping and clock.monotonic() < tenure.deadline

    @property
    def problem(self) -> str | None:
        """What keeps this replica from reading, taking or renewing the lease; None when nothing does."""
        return self._troubles.problem

    async def run(self) -> None:
        """Take part until `release` is called.

        Raises LeadershipLost when this replica was the leader and could not renew in time, or finds another
        holder. The transport is fenced by then: no write leaves any more, and those in flight are cut.
        When cancelled, it leaves the lease to expire.
        """
        self._running = True
        try:
            if not self._stopping:
                claim = await self._win()
                await self._serve(claim) if claim is not None else await self._withdraw()
        finally:
            self._status.set(0)
            self.leadership.ended("the election is over")
            self._over.set()

    async def _win(self) -> Claim | None:
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(self._lookout.run(), name=f"look at lease {self._leases}")
            try:
                return await self._candidacy.win()
            finally:
                looking.cancel()

    async def release(self, *, within: float = 5.0) -> None:
        """End the election, and give the lease back if we hold it: another replica takes over at once.

        To be called when the leader's work has ended. Returns when `run` is about to, after `within` seconds
        or one request's time at most. Does not raise when the lease cannot be released.
        """
        self._stopping = True
        self._release_within = within
        self._candidacy.stop()
        if self._tenure is not None:
            self._tenure.stop()
        if self._running:
            await self._over.wait()

    async def _serve(self, claim: Claim) -> None:
        tenure = Tenure(
            self._leases,
            claim,
            identity=self.identity,
            timing=self._timing,
            rng=self._rng,
            troubles=self._troubles,
            renewed=self._renewed,
        )
        self._renewed(tenure.deadline)
        self._tenure = tenure
        if self._stopping:
            tenure.stop()  # won in the very moment in which we were to stop: only to give it back
        else:
            self._status.set(1)
            self.elected.set()
            _log.info("became the leader", lease=str(self._leases), identity=self.identity)
        try:
            await tenure.hold()
        except LeadershipLost as lost:
            # Here and now, before anything else gets to run: the next write could already be one too many.
            self._transport.fence(str(lost))
            self.leadership.ended(str(lost))
            self._end_in_time(min(tenure.deadline, clock.monotonic()))
            raise
        self._status.set(0)
        self.leadership.ended("the lease is given back")
        self._watchdog.lift(_LOST)
        # The leader's work is done, and what is still to be written (Events, say) is not the leader's.
        self._transport.fence_at(None)
        await self._give_back(tenure.lease)

    def _renewed(self, deadline: float) -> None:
        self._transport.fence_at(deadline)
        self.leadership.renewed(deadline)
        self._end_in_time(deadline)

    def _end_in_time(self, lost: float) -> None:
        """Have the process ended soon after the lease is lost, unless that is put off by a renewal."""
        margin = self._timing.lease_duration - self._timing.renew_deadline
        self._watchdog.limit(
            _LOST, lost + _STOP_WITHIN * margin, latest=lost + _GONE_WITHIN * margin, since=lost
        )

    async def _withdraw(self) -> None:
        if self._candidacy.uncertain:
            await self._give_back(None)

    async def _give_back(self, held: Lease | None) -> None:
        """Mark the lease as free if we hold it; `held` is it as we do, or None to read it first.

        When that fails, again and again, the others have to wait until it expires.
        """
        pause = self._release_within * _PAUSE
        until = clock.monotonic() + self._release_within
        while (left := until - clock.monotonic()) > 0:
            # Half of what is left: after an answer that was lost there is time to look what became of it.
            timeout = max(left / 2, pause)
            try:
                if held is None:
                    held = await self._leases.read(timeout=timeout)
                if held is not None and held.holder == self.identity:
                    await self._leases.write(held.released(now=clock.now()), timeout=timeout)
                _log.info("released the lease", lease=str(self._leases))
                return
            except KubeError as error:
                self._troubles.report(f"cannot release lease {self._leases}", error)
                held = None
                await asyncio.sleep(pause)
        _log.warning("could not release the lease: the others wait until it expires", lease=str(self._leases))
