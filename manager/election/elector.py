"""The election of a leader: acquire the lease, renew it, release it or lose it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from manager.election.config import ElectionConfig
from manager.election.coordinator import Coordinator
from manager.election.guard import Leadership, LeadershipLost, ProcessGuard
from manager.election.lease import LastError, Lease, LeaseClient
from manager.election.lease_watch import TIMER_ERROR, LeaseWatcher, pause
from manager.election.shard_count import ShardCountAgreement
from manager.kube.errors import AlreadyExists, ApiError, Conflict, KubeError, NotFound, ServerError
from manager.telemetry.logs import get_logger
from manager.util import clock
from manager.util.duration import format_duration

RENEW_EARLY = (0.9, 1.0)
"""Parts of the retry period between two renewals: they come a little early rather than late."""

# Part of a retry period to wait when the lease keeps changing under our renewals.
_CONTENDED = 0.1
# Part of the time for the release to wait after a failure.
_PAUSE = 0.04

_log = get_logger("leader")


class LeaseLock:
    """A lock on a Lease: it takes the Lease when wanted, renews it, and gives it back when no longer wanted.

    The deadline counts from the sending of the last renewal that is known to have succeeded, not from its
    answer: other replicas count from when they saw the renewal, which may be as early as its sending. A
    renewal whose answer was lost does not move the deadline, even if the server has it.

    Attributes:
        wanted: whether this replica should take the Lease, or keep it.
        idle: whether the lock waits for `want`.
        taken: whether the Lease is ours, also while work may not begin yet.
        held: set while this replica holds the Lease and may work, until it is lost or given back.
        leadership: permits effects while the Lease is held. Each acquisition has a new one, so that work from
            an earlier one gets no permission.
        release_within: seconds that giving the Lease back may take.
    """

    def __init__(
        self,
        config: ElectionConfig,
        leases: LeaseClient,
        watcher: LeaseWatcher,
        guard: ProcessGuard,
        agreement: ShardCountAgreement,
        began: Callable[[], None],
    ) -> None:
        """`began` is called when the Lease is held and work may begin; then `held` is set."""
        self.wanted = self.idle = self.taken = False
        self.held = asyncio.Event()
        self.leadership = Leadership(elected=False)
        self.release_within = config.timing.renew_deadline
        self._config = config
        self._timing = config.timing
        self._leases = leases
        self._guard = guard
        self._agreement = agreement
        self._began = began
        self._first = watcher.of(config.name)
        # What the server last showed of the Lease, which decides when to claim it. It comes from the watcher,
        # so a request that hangs delays no observation.
        self._view = watcher.of(leases.name)
        watcher.listen(self._seen)
        self._error = LastError()
        self._lease = Lease.new(namespace=leases.namespace, name=leases.name)
        """The Lease as the server stored our last claim or renewal."""
        self._sent = -math.inf
        self._doubtful = False
        """Whether the server may have another version than `_lease`."""
        self._uncertain = False
        """Whether the last claim got no answer, so that we may hold the Lease unknowingly."""
        self._silent_since: float | None = None
        """The local time of the last sign of the holder before us; None if there was none."""
        self._was_held = False
        self._giving_back = False
        self._mark: Callable[[Lease], Lease] | None = None
        self._marked = asyncio.Event()
        self._called = asyncio.Event()
        self._wake = asyncio.Event()
        self._status = config.metrics.leader_status.labels(name=leases.name)
        self._status.set(0)
        self._taken_count, self._given_back_count = (
            config.metrics.lease_handovers.labels(direction=each) for each in ("taken", "given_back")
        )

    def __str__(self) -> str:
        return str(self._leases)

    @property
    def problem(self) -> str | None:
        """Why this replica cannot take or renew it; None when it can."""
        return self._error.problem or self._agreement.problem

    @property
    def deadline(self) -> float:
        """The loop time until which the Lease is surely held, unless renewed before."""
        return self._sent + self._timing.renew_deadline

    def want(self) -> None:
        """Take it when it is free. One that is being given back is taken again after that."""
        self.wanted = True
        self._called.set()

    def give_up(self) -> None:
        """Give it back, or do not take it. The work under it has to be over."""
        self.wanted = False
        self._giving_back = True
        self._called.clear()
        self._wake.set()

    async def wait_wanted(self) -> None:
        """Return once `want` has been called."""
        self.idle = True
        await self._called.wait()
        self.idle = False

    async def acquire(self) -> bool:
        """Wait until it is free, or its holder has been silent for too long, and claim it.

        Return False when it was given up before.
        """
        while self.wanted:
            self._wake.clear()
            if self._view.claimable(clock.monotonic()) and await self._claim():
                return True
            await pause(self._wake, until=self._view.claimable_at())
        if self._uncertain:
            await self._release(None)
        return False

    async def hold(self) -> None:
        """Hold it, once it is acquired, until `give_up`, and give it back.

        Raises LeadershipLost, with the guard closed, when it was not renewed in time, or another replica has
        it.
        """
        if self._was_held:
            self.leadership = Leadership(elected=False)
        self.taken = self._was_held = True
        self._doubtful, self._mark, self._marked = False, None, asyncio.Event()
        # It may be won in the very moment of the stop: only to give it back.
        self._giving_back = not self.wanted
        self._guard.renewed(self._leases.name, self.deadline)
        agreeing = asyncio.create_task(self._begin_when_agreed(), name=f"agree on {self._leases}")
        try:
            await self._keep_renewed()
        except LeadershipLost as lost:
            self._guard.close(self._leases.name, str(lost))
            self.ended(str(lost))
            raise
        finally:
            agreeing.cancel()
            await asyncio.wait([agreeing])
        if not agreeing.cancelled():
            agreeing.result()
        if self.held.is_set():
            self._given_back_count.inc()
        self.ended("the lease is given back")
        self.taken, self._sent = False, -math.inf
        # The work is done, and writes that are still to come (Events, say) do not depend on this lease.
        self._guard.released(self._leases.name)
        await self._release(None if self._doubtful else self._lease)

    def ended(self, reason: str) -> None:
        """Permit nothing more, whatever the Lease says."""
        self._status.set(0)
        self.held.clear()
        self.leadership.ended(reason)

    # Before the Lease is ours

    def _seen(self, asked: bool) -> None:
        if self.taken:
            return
        if asked:
            self._uncertain = False
        if not self._view.claimable(clock.monotonic()):
            # Else a claim follows, which has errors of its own: the last one's is not over yet.
            self._error.clear()
        self._wake.set()

    async def _claim(self) -> bool:
        base = self._view.lease or Lease.new(namespace=self._leases.namespace, name=self._leases.name)
        since = None if self._view.lease is None else self._view.since
        # Whatever comes of it, the lease has to be seen again before the next claim. Said before the request,
        # because the watch may show it while the answer is on its way.
        self._view.doubtful = True
        timeout = self._timing.attempt_timeout
        try:
            if base.is_outline:
                whole = await self._leases.read(timeout=timeout)
                if whole is None or whole.version != base.version:
                    return False
                base = whole
            lease, sent = await self._write(self._agreement.claimed(base), timeout)
        except (Conflict, AlreadyExists, NotFound) as error:
            self._uncertain = False
            if isinstance(error, NotFound) and base.version is None:
                self._error.report(f"cannot create lease {self._leases}", error)
                self._view.doubtful = True
            elif isinstance(error, AlreadyExists):
                await self._look()
            return False  # another replica was faster
        except KubeError as error:
            self._uncertain = not isinstance(error, ApiError) or isinstance(error, ServerError)
            self._error.report(f"cannot take lease {self._leases}", error)
            self._view.doubtful = True  # also if the watch has shown it: only a read clears this error
            return False
        self._uncertain = False
        self._error.clear()
        if clock.monotonic() - sent >= self._timing.renew_deadline:
            # The process was held up while the answer waited, too long to rely on it. The next observation
            # finds our own name in the lease, and claims again.
            return False
        self._lease, self._sent, self._silent_since = lease, sent, since
        return True

    async def _look(self) -> None:
        """Read a lease that the watcher may miss, because its creator did not know our label."""
        try:
            lease = await self._leases.read(timeout=self._timing.attempt_timeout)
        except KubeError as error:
            self._error.report(f"cannot read lease {self._leases}", error)
            return
        if lease is not None:
            self._view.saw(lease, now=clock.monotonic())

    async def _write(self, lease: Lease, timeout: float) -> tuple[Lease, float]:
        return await self._leases.claim(
            lease, identity=self._config.identity, timing=self._timing, timeout=timeout
        )

    # While the Lease is ours

    async def _begin_when_agreed(self) -> None:
        """Work only when no other replica can divide the work into another number of shards."""
        agreed = False
        try:
            agreed = await self._agreement.agree(self._lease, self._write_mark, self._first)
        finally:
            if not agreed:
                self.give_up()
        if agreed and self.wanted:
            self._taken_count.inc()
            if self._silent_since is not None:
                self._config.metrics.lease_unowned.observe(clock.monotonic() - self._silent_since)
            self.leadership.renewed(self.deadline)
            self._status.set(1)
            self.held.set()
            self._began()

    async def _write_mark(self, change: Callable[[Lease], Lease]) -> None:
        """Make that change with the next renewal, which is at once, and with each after it.

        Returns when the server has it.
        """
        self._mark = change
        self._wake.set()
        await self._marked.wait()

    async def _keep_renewed(self) -> None:
        """Renew until given up; raise LeadershipLost at the deadline, or when another holder has it."""
        self._wake.clear()
        while not self._giving_back:
            await pause(self._wake, until=self._sent + self._period())
            await self._renew()

    def _period(self) -> float:
        return self._timing.retry_period * self._config.rng.uniform(*RENEW_EARLY)

    async def _renew(self) -> None:
        """Try until it succeeds."""
        while not self._giving_back:
            self._wake.clear()
            started = clock.monotonic()
            try:
                async with asyncio.timeout_at(self.deadline):
                    await self._attempt()
            except TimeoutError:
                continue  # the next attempt finds that there is no time left
            except (Conflict, AlreadyExists, NotFound) as error:
                # Changed by an earlier renewal of ours whose answer was lost, or by others: read it again.
                self._doubtful = True
                self._error.report(f"lease {self._leases} is not as it was left", error)
                again = started + self._timing.retry_period * _CONTENDED
            except KubeError as error:
                self._doubtful = True
                self._error.report(f"cannot renew lease {self._leases}", error)
                again = started + self._period()
            else:
                self._error.clear()
                return
            await pause(self._wake, until=min(again, self.deadline))

    async def _attempt(self) -> None:
        if self._doubtful:
            current = await self._leases.read(timeout=self._time_left())
            if current is None:
                self._lease = self._lease.recreated()
            elif current.holder == self._config.identity:
                self._lease = current
            else:
                holder = f"held by {current.holder}" if current.holder else "released by somebody"
                raise LeadershipLost(f"lease {self._leases} is now {holder}")
        mark = self._mark
        base = self._lease if mark is None else mark(self._lease)
        timeout = self._time_left()
        # Set before, so that an attempt that is cut short leaves it set.
        self._doubtful = True
        self._lease, self._sent = await self._write(base, timeout)
        self._doubtful = False
        self._guard.renewed(self._leases.name, self.deadline)
        if self.held.is_set():
            self.leadership.renewed(self.deadline)
        if mark is not None:
            self._marked.set()

    def _time_left(self) -> float:
        left = self.deadline - clock.monotonic()
        if left <= TIMER_ERROR:
            why = self._error.problem or "this process was held up"
            deadline = format_duration(self._timing.renew_deadline)
            raise LeadershipLost(f"lease {self._leases} could not be renewed for {deadline}: {why}")
        return min(left, self._timing.attempt_timeout)

    async def _release(self, held: Lease | None) -> None:
        """Mark the lease as free if we hold it; `held` is it as we do, or None to read it first.

        When that fails, again and again, the others have to wait until it expires.
        """
        began = clock.monotonic()
        while (left := began + self.release_within - clock.monotonic()) > 0:
            wait = self.release_within * _PAUSE
            # Half of the time left: after an answer that was lost, the other half is for a look at the lease.
            timeout = max(left / 2, wait)
            try:
                if held is None:
                    held = await self._leases.read(timeout=timeout)
                if held is not None and held.holder == self._config.identity:
                    await self._leases.write(held.released(now=clock.now()), timeout=timeout)
                _log.info("released the lease", lease=str(self._leases))
                return
            except KubeError as error:
                self._error.report(f"cannot release lease {self._leases}", error)
                held = None
                await asyncio.sleep(wait)
        _log.warning("could not release the lease: the others wait until it expires", lease=str(self._leases))


class LeaderElector(Coordinator):
    """The election of one leader among the replicas that name the same Lease. Used once.

    Two replicas never write as leaders at the same time, as long as their clocks run at rates that differ by
    less than `lease_duration / renew_deadline`, no other program edits the Lease, and no write waits inside
    the API server for longer than the difference of the two. docs/limits.md names the rest.
    """

    def __init__(self, config: ElectionConfig) -> None:
        super().__init__()
        leases = LeaseClient(config.transport, namespace=config.namespace, name=config.name)
        self.identity = config.identity
        self._watcher = LeaseWatcher(config, leases)
        self._view = self._watcher.of(config.name)
        self._lock = LeaseLock(
            config,
            leases,
            self._watcher,
            ProcessGuard(config),
            ShardCountAgreement(config, count=1),
            self._begin,
        )
        self._running = False
        self._stopping = False
        self._over = asyncio.Event()

    @property
    def elected(self) -> asyncio.Event:
        """Set when this replica becomes the leader."""
        return self._lock.held

    @property
    def leadership(self) -> Leadership:
        """The permission for effects outside of the cluster."""
        return self._lock.leadership

    @property
    def leading(self) -> bool:
        """Return whether this replica is the leader now; False from the renew deadline on."""
        return self.elected.is_set() and not self._stopping and clock.monotonic() < self._lock.deadline

    @property
    def leader(self) -> str:
        """The identity of the leader, as far as this replica knows; empty while there is none."""
        return self.identity if self.leading else self._view.holder

    @property
    def problem(self) -> str | None:
        """Why this replica cannot read, take or renew the lease; None when it can."""
        return self._lock.problem or (None if self.elected.is_set() else self._watcher.problem)

    async def run(self) -> None:
        """Take part until `release` is called.

        Raises LeadershipLost when this replica was the leader and could not renew in time, or finds another
        holder. The transport is fenced by then: no write leaves any more, and those in flight are cut.
        When cancelled, it leaves the lease to expire.
        """
        self._running = True
        try:
            if not self._stopping:
                self._lock.want()
                if await self._acquire():
                    await self._lock.hold()
        finally:
            self._lock.ended("the election is over")
            self._over.set()

    async def release(self, *, within: float = 5.0) -> None:
        """End the election, and give the lease back if we hold it: another replica takes over at once.

        The leader's work must have ended. Returns shortly before `run` does, after `within` seconds at most.
        """
        self._stopping = True
        self._lock.release_within = within
        self._lock.give_up()
        if self._running:
            await self._over.wait()

    async def _acquire(self) -> bool:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watcher.run(), name="watch the lease")
            try:
                return await self._lock.acquire()
            finally:
                watching.cancel()

    def _begin(self) -> None:
        _log.info("became the leader", lease=str(self._lock), identity=self.identity)
        self._start_work()
