"""One Lease, as one replica has to do with it: not wanted, wanted, held, given back, again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from manager import clock
from manager.kube.errors import KubeError
from manager.kube.transport import Transport
from manager.leader.candidacy import Candidacy, Claim
from manager.leader.leadership import Leadership
from manager.leader.lease import LeadershipLost, Lease, LeaseTiming
from manager.leader.lease_client import LeaseClient, Troubles
from manager.leader.lookout import Lookout, Observation
from manager.leader.mode import Mode
from manager.leader.tenure import Tenure
from manager.logs import get_logger
from manager.metrics import Metrics
from manager.watchdog import Watchdog

# Part of the time there is to wait after a failure.
_PAUSE = 0.04
_LOST = "the lease was lost"
# Parts of the time from the renew deadline until others may take over: to end in order, and to end at all.
_STOP_WITHIN = 0.8
_GONE_WITHIN = 0.95

_log = get_logger("leader")


class Fence:
    """The right of this process to write, and to live: it ends with the first Lease that is not renewed."""

    def __init__(self, transport: Transport, watchdog: Watchdog, timing: LeaseTiming) -> None:
        self._transport = transport
        self._watchdog = watchdog
        self._margin = timing.lease_duration - timing.renew_deadline
        self._deadlines: dict[str, float] = {}

    def renewed(self, lease: str, deadline: float) -> None:
        """A Lease is held until the loop time `deadline`."""
        self._deadlines[lease] = deadline
        self._set()

    def given_back(self, lease: str) -> None:
        """A Lease is not needed any more."""
        del self._deadlines[lease]
        self._set()

    def close(self, lease: str, reason: str) -> None:
        """Let no write leave from now on, and drop those in flight: a Lease was lost."""
        # Here and now, before anything else gets to run: the next write could already be one too many.
        self._transport.fence(reason)
        # As its deadline from now on, which no renewal of another one puts off.
        self.renewed(lease, min(self._deadlines[lease], clock.monotonic()))

    def _set(self) -> None:
        earliest = min(self._deadlines.values(), default=None)
        self._transport.fence_at(earliest)
        if earliest is None:
            self._watchdog.lift(_LOST)
        else:
            self._end_in_time(earliest)

    def _end_in_time(self, lost: float) -> None:
        """Have the process ended soon after the lease is lost, unless that is put off by a renewal."""
        self._watchdog.limit(
            _LOST, lost + _STOP_WITHIN * self._margin, latest=lost + _GONE_WITHIN * self._margin, since=lost
        )


class Holding:
    """Takes a Lease when it is wanted, holds it, and gives it back when it is not wanted any more.

    Attributes:
        wanted: whether this replica is to take it, or to keep it.
        held: set while this replica holds it, until it is lost or given back.
        leadership: the fence of the present term, or of the last one. Each has its own, so that what one has
            left behind is not permitted anything by the next.
    """

    def __init__(
        self,
        leases: LeaseClient,
        lookout: Lookout,
        fence: Fence,
        *,
        identity: str,
        timing: LeaseTiming,
        rng: Random,
        metrics: Metrics,
        mode: Mode,
        first: Observation,
        began: Callable[[], None],
    ) -> None:
        """`began` is called when it is held: then `held` is set. `first` is what is known of the Lease of the
        first range, which may be this one.
        """
        self.lease = str(leases)
        self.held = asyncio.Event()
        self.leadership = Leadership(elected=False)
        self.give_back_within = timing.renew_deadline
        self._mode = mode
        self._first = first
        self._settles = first is lookout.of(leases.name)
        self._began = began
        self._called = asyncio.Event()
        self._idle = False
        self._leases = leases
        self._fence = fence
        self._identity = identity
        self._timing = timing
        self._rng = rng
        self._troubles = Troubles()
        self._status = metrics.leader_status.labels(name=leases.name)
        self._status.set(0)
        self._taken = metrics.lease_handovers.labels(direction="taken")
        self._given_back = metrics.lease_handovers.labels(direction="given_back")
        self._unowned = metrics.lease_unowned
        self._candidacy = Candidacy(
            leases,
            lookout,
            identity=identity,
            timing=timing,
            troubles=self._troubles,
            claimed=mode.claimed,
        )
        self._tenure: Tenure | None = None
        self._terms = 0
        self.wanted = False

    @property
    def problem(self) -> str | None:
        """What keeps this replica from taking or renewing it; None when nothing does."""
        return self._troubles.problem or self._mode.problem

    @property
    def deadline(self) -> float | None:
        """The loop time until which it is held for sure, unless it is renewed before; None when it is not."""
        return None if self._tenure is None else self._tenure.deadline

    @property
    def taken(self) -> bool:
        """Whether the Lease is ours, also while it is not agreed that it may be worked on."""
        return self._tenure is not None

    @property
    def idle(self) -> bool:
        """Whether it is only waited for that somebody wants it."""
        return self._idle

    def want(self) -> None:
        """Take it when it is free. One that is being given back is taken again after that."""
        self.wanted = True
        self._called.set()
        self._candidacy.want(True)

    def give_up(self) -> None:
        """Give it back, or do not take it. To be called when the work that it stands for has ended."""
        self.wanted = False
        self._called.clear()
        self._candidacy.want(False)
        if self._tenure is not None:
            self._tenure.stop()

    async def until_wanted(self) -> None:
        """Wait for `want`."""
        self._idle = True
        await self._called.wait()
        self._idle = False

    async def win(self) -> Claim | None:
        """Wait until it is taken; return None when it was given up before."""
        claim = await self._candidacy.win()
        if claim is None and self._candidacy.uncertain:
            await self._give_back(None)
        return claim

    async def hold(self, claim: Claim) -> None:
        """Hold it until `give_up`, and give it back.

        Raises LeadershipLost when it could not be renewed in time, or somebody else has it; the fence is
        closed by then.
        """
        if self._terms:
            self.leadership = Leadership(elected=False)
        self._terms += 1
        tenure = Tenure(
            self._leases,
            claim,
            identity=self._identity,
            timing=self._timing,
            rng=self._rng,
            troubles=self._troubles,
            renewed=self._renewed,
        )
        self._renewed(tenure.deadline)
        self._tenure = tenure
        agreeing = None
        if not self.wanted:
            tenure.stop()  # won in the very moment in which we were to stop: only to give it back
        elif not (self._settles and self._mode.is_settled(claim.lease)):
            agreeing = asyncio.create_task(
                self._begin_when_agreed(tenure, claim), name=f"agree on {self._leases}"
            )
        else:
            self._begin(claim)
        try:
            await tenure.hold()
        except LeadershipLost as lost:
            self._fence.close(self._leases.name, str(lost))
            self.ended(str(lost))
            raise
        finally:
            if agreeing is not None:
                agreeing.cancel()
                await asyncio.wait([agreeing])
        if agreeing is not None and not agreeing.cancelled():
            agreeing.result()
        if self.held.is_set():
            self._given_back.inc()
        self.ended("the lease is given back")
        self._tenure = None
        # The work is done, and what is still to be written (Events, say) is not fenced by this.
        self._fence.given_back(self._leases.name)
        await self._give_back(tenure.lease)

    async def _begin_when_agreed(self, tenure: Tenure, claim: Claim) -> None:
        """Work only when it is sure that nobody divides the work into another number of ranges."""
        agreed = False
        try:
            if self._settles:
                await self._mode.settle(tenure)
                agreed = True
            else:
                agreed = await self._mode.allows(self._first)
        finally:
            if not agreed:
                self.give_up()
        if agreed and self.wanted:
            self._begin(claim)

    def _begin(self, claim: Claim) -> None:
        assert self._tenure is not None
        self._taken.inc()
        if claim.since is not None:
            self._unowned.observe(clock.monotonic() - claim.since)
        self.leadership.renewed(self._tenure.deadline)
        self._status.set(1)
        self.held.set()
        self._began()

    def ended(self, reason: str) -> None:
        """Permit nothing more, whatever the Lease says."""
        self._status.set(0)
        self.held.clear()
        self.leadership.ended(reason)

    def _renewed(self, deadline: float) -> None:
        self._fence.renewed(self._leases.name, deadline)
        if self.held.is_set():
            self.leadership.renewed(deadline)

    async def _give_back(self, held: Lease | None) -> None:
        """Mark the lease as free if we hold it; `held` is it as we do, or None to read it first.

        When that fails, again and again, the others have to wait until it expires.
        """
        began = clock.monotonic()
        while (left := began + self.give_back_within - clock.monotonic()) > 0:
            pause = self.give_back_within * _PAUSE
            # Half of what is left: after an answer that was lost there is time to look what became of it.
            timeout = max(left / 2, pause)
            try:
                if held is None:
                    held = await self._leases.read(timeout=timeout)
                if held is not None and held.holder == self._identity:
                    await self._leases.write(held.released(now=clock.now()), timeout=timeout)
                _log.info("released the lease", lease=str(self._leases))
                return
            except KubeError as error:
                self._troubles.report(f"cannot release lease {self._leases}", error)
                held = None
                await asyncio.sleep(pause)
        _log.warning("could not release the lease: the others wait until it expires", lease=str(self._leases))
