"""The election of a leader: it acquires the lease, renews it, and releases or loses it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from manager.election.coordinator import Coordinator, Leadership, LeadershipLost
from manager.election.lease import ElectionConfig, Lease, Leases
from manager.election.lease_watch import TIMER_ERROR, LastError, LeaseObservation, LeaseWatcher, pause
from manager.kube.errors import AlreadyExists, ApiError, Conflict, KubeError, NotFound, ServerError
from manager.telemetry.logs import get_logger
from manager.util import clock
from manager.util.duration import format_duration

SHARD = "shard"
"""The value of the group's label that distinguishes the Leases of shards from those of replicas."""

# The fraction of a retry period to wait if others change the lease between our renewals.
_CONTENDED = 0.1
# The fraction of the release time to wait after a failure.
_PAUSE = 0.04
_LOST = "the lease was lost"
# Fractions of the time from the renew deadline until others may take over: for an orderly end, and for the
# forced end.
_STOP_WITHIN = 0.8
_GONE_WITHIN = 0.95

_log = get_logger("leader")


class ProcessGuard:
    """The right of this process to write to the API server, and to continue, until a lease is lost."""

    def __init__(self, config: ElectionConfig) -> None:
        self._transport = config.transport
        self._watchdog = config.watchdog
        self._margin = config.timing.lease_duration - config.timing.renew_deadline
        self._deadlines: dict[str, float] = {}

    def renewed(self, lease: str, deadline: float) -> None:
        """Record that the lease is held until the loop time `deadline`."""
        self._deadlines[lease] = deadline
        self._set()

    def released(self, lease: str) -> None:
        """Record that the lease is not needed any more."""
        del self._deadlines[lease]
        self._set()

    def close(self, lease: str, reason: str) -> None:
        """Send no more writes, and drop those in flight, because the lease was lost."""
        # Fence at once, before any other code runs: the next write could already be too late.
        self._transport.fence(reason)
        # The lease's deadline is now past, and no renewal of another lease extends it.
        self.renewed(lease, min(self._deadlines[lease], clock.monotonic()))

    def _set(self) -> None:
        lost = min(self._deadlines.values(), default=None)
        self._transport.fence_at(lost)
        if lost is None:
            self._watchdog.lift(_LOST)
        else:
            when, latest = (lost + part * self._margin for part in (_STOP_WITHIN, _GONE_WITHIN))
            self._watchdog.limit(_LOST, when, latest=latest, since=lost)


class ShardCountAgreement:
    """A guard that keeps replicas with different numbers of shards from working at the same time.

    The first shard's Lease has the number in an annotation. A replica that takes this Lease and finds another
    number sets the annotation to `to N`, with its own number N. It begins its work only when all other shards
    are free. A replica that takes another shard reads the first Lease afterwards. So each of two replicas
    writes its own Lease before it reads the other replica's Lease, and at least one sees the other replica.
    """

    def __init__(self, config: ElectionConfig, *, count: int) -> None:
        self.group = Leases(config.transport, namespace=config.namespace, label=f"{config.name}/lease")
        self._config = config
        self._others = LeaseWatcher(config, self.group)
        self._first = self.group.one(config.name)
        self._annotation = f"{config.name}/shards"
        self._count = str(count)
        self._is_leader = count == 1
        # Separate from the errors of our own Lease, which is renewed all the time.
        self._error = LastError()

    @property
    def problem(self) -> str | None:
        """Return why this replica cannot read the Leases of other replicas; None if it can."""
        return self._error.problem or self._others.problem

    def claimed(self, lease: Lease) -> Lease:
        """Return the Lease for a claim, with our label; the first shard's Lease gets the number of shards."""
        lease = lease.labelled({self.group.label: SHARD})
        if lease.name != self._first.name or self.is_settled(lease):
            return lease
        # A leader's Lease without a number was created by hand, or is new: there were no shards.
        if self._annotation not in lease.annotations and self._is_leader:
            return self.settled(lease)
        return lease.annotated({self._annotation: f"to {self._count}"})

    def settled(self, lease: Lease) -> Lease:
        """Return the first shard's Lease with our number of shards as the agreed one."""
        return lease.annotated({self._annotation: self._count})

    def is_settled(self, lease: Lease | None) -> bool:
        """Return whether the first shard's Lease has our number of shards as the agreed one."""
        return lease is not None and lease.annotations.get(self._annotation) == self._count

    async def wait_until_free(self) -> None:
        """Wait until no replica can hold any shard except the first.

        A holder may work although its Lease was deleted: it counts until the last seen Lease expires.
        """
        while True:
            is_read = await self._others.read()
            held = [view for view in self._others if self._is_held(view)]
            for lease in filter(None, (view.lease for view in held)):
                self._others.of(lease.name)  # keeps the observation if the Lease is deleted
            if is_read and not held:
                return
            await asyncio.sleep(self._config.timing.retry_period)

    def _is_held(self, view: LeaseObservation) -> bool:
        if (lease := view.lease) is not None and (
            lease.name == self._first.name or lease.labels.get(self.group.label) != SHARD
        ):
            return False
        return view.holder != "" and clock.monotonic() < view.expires_at

    async def is_first_settled(self, view: LeaseObservation) -> bool:
        """Return whether the first Lease, observed by `view`, has our number of shards; retry failed reads.

        A caller that gave its shard back after a failed read would take it again, in a loop without any
        delay.
        """
        while True:
            try:
                await view.read(self._first, timeout=self._config.timing.attempt_timeout)
            except KubeError as error:
                self._error.report(f"cannot read lease {self._first}", error)
                await asyncio.sleep(self._config.timing.retry_period)
            else:
                self._error.clear()
                return self.is_settled(view.lease)


class LeaseLock:
    """A lock on a Lease: it takes the Lease when wanted, renews it, and gives it back afterwards.

    The deadline is measured from the sending of the last successful renewal, not from its answer. Other
    replicas measure from the time when they saw the renewal, which may be directly after it was sent. A
    renewal whose answer was lost does not extend the deadline, even if the server has it.

    Attributes:
        wanted: set while this replica should take or keep the Lease.
        taken: whether the Lease is ours, even if work may not begin yet.
        held: set while this replica holds the Lease and may work, until it is lost or given back.
        leadership: permits effects while the Lease is held. Each acquisition has a new one, so that work from
            an earlier acquisition gets no permission.
        release_within: time limit in seconds for giving the Lease back.
    """

    def __init__(
        self,
        config: ElectionConfig,
        leases: Leases,
        watcher: LeaseWatcher,
        guard: ProcessGuard,
        agreement: ShardCountAgreement,
        began: Callable[[], None],
    ) -> None:
        """Create a lock; it calls `began`, and sets `held`, when the Lease is held and work may begin."""
        self.wanted = asyncio.Event()
        self.taken = False
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
        # The watcher updates this observation, so a request that hangs delays no observation.
        self._view = watcher.of(leases.name)
        watcher.listen(self._observed)
        self._error = LastError()
        self._sent = -math.inf
        self._may_hold = False
        """Whether the stored Lease may name us as its holder, although our claim did not count."""
        self._silent_since: float | None = None
        """The local time since which the Lease was unchanged before our claim; None if there was no Lease."""
        self._was_held = False
        self._giving_back = False
        self._may_state = False
        """Whether the first Lease may state our number of shards."""
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
        """Return why this replica cannot take or renew the Lease; None if it can."""
        return self._error.problem or self._agreement.problem

    @property
    def deadline(self) -> float:
        """Return the loop time until which the Lease is surely held, without a further renewal."""
        return self._sent + self._timing.renew_deadline

    def give_up(self) -> None:
        """Give the Lease back, or stop trying to take it; the work under the Lease must have ended."""
        self.wanted.clear()
        self._giving_back = True
        self._wake.set()

    async def acquire(self) -> bool:
        """Wait until the Lease is free, or its holder has been silent for too long, and claim it.

        Returns False if `give_up` was called before.
        """
        while self.wanted.is_set():
            self._wake.clear()
            if self._view.claimable(clock.monotonic()):
                if await self._claim():
                    return True
            elif not self._view.doubtful:
                self._error.clear()  # the error was the last claim's, and another replica has the Lease now
            await pause(self._wake, until=self._view.claimable_at())
        if self._may_hold:
            self._view.doubtful = True
            await self._release()
        return False

    async def hold(self) -> None:
        """Renew the acquired Lease until `give_up`, and then give it back.

        Raises a group with LeadershipLost, after closing the guard, if the Lease was not renewed in time or
        another replica has it. Raises an error of `began` in a group, too.
        """
        if self._was_held:
            self.leadership = Leadership(elected=False)
        self.taken = self._was_held = True
        self._may_state = False
        # The Lease may be won just when the stop begins: then it is only given back.
        self._giving_back = not self.wanted.is_set()
        self._guard.renewed(self._leases.name, self.deadline)
        async with asyncio.TaskGroup() as group:
            beginning = group.create_task(self._begin_when_agreed(), name=f"agree on {self._leases}")
            try:
                await self._keep_renewed()
            except LeadershipLost as lost:
                self._guard.close(self._leases.name, str(lost))
                self.ended(str(lost))
                raise
            beginning.cancel()
        if self.held.is_set():
            self._given_back_count.inc()
        self.ended("the lease is given back")
        self.taken, self._sent = False, -math.inf
        # The work has ended, and later writes, such as Events, do not need this lease.
        self._guard.released(self._leases.name)
        await self._release()

    def ended(self, reason: str) -> None:
        """Permit no more effects from now on; `reason` is the message of the error that they raise."""
        self._status.set(0)
        self.held.clear()
        self.leadership.ended(reason)

    def _observed(self) -> None:
        if not self.taken:
            self._wake.set()

    async def _claim(self) -> bool:
        view, timeout = self._view, self._timing.attempt_timeout
        since = None if view.lease is None else view.since
        before = self._may_hold
        try:
            base = await view.base(self._leases, timeout=timeout)
            if not view.claimable(clock.monotonic()):
                return False
            self._may_hold = True
            sent = await view.claim(self._leases, self._agreement.claimed(base), timeout=timeout)
        except (Conflict, AlreadyExists) as error:  # another replica was faster
            self._may_hold = before
            if isinstance(error, AlreadyExists):
                await self._look()
            return False
        except KubeError as error:
            self._may_hold = before or not isinstance(error, ApiError) or isinstance(error, ServerError)
            self._error.report(f"cannot take lease {self._leases}", error)
            return False
        self._error.clear()
        if clock.monotonic() - sent >= self._timing.renew_deadline:
            # The process was suspended during the request, so the result is too old: claim again.
            return False
        self._sent, self._silent_since, self._may_hold = sent, since, False
        return True

    async def _look(self) -> None:
        """Read a Lease that the watcher may miss, because its creator has not set our label."""
        try:
            await self._view.read(self._leases, timeout=self._timing.attempt_timeout)
        except KubeError as error:
            self._error.report(f"cannot read lease {self._leases}", error)
        # If the Lease does not exist, the next claim waits for the watcher: no loop runs without delay.
        self._view.doubtful = self._view.doubtful or self._view.lease is None

    async def _begin_when_agreed(self) -> None:
        """Begin the work as soon as no other replica can use another number of shards."""
        if self._leases.name != self._config.name:
            if not await self._agreement.is_first_settled(self._first):
                self.give_up()
        elif not self._agreement.is_settled(self._view.lease):
            await self._agreement.wait_until_free()
            # The next renewal, which is sent at once, contains our number and begins the work.
            self._may_state = True
            self._wake.set()
            return
        self._begin()

    def _begin(self) -> None:
        if not self.wanted.is_set():
            return
        self._taken_count.inc()
        if self._silent_since is not None:
            self._config.metrics.lease_unowned.observe(clock.monotonic() - self._silent_since)
        self.leadership.renewed(self.deadline)
        self._status.set(1)
        self.held.set()
        self._began()

    async def _keep_renewed(self) -> None:
        """Renew until given up; raise LeadershipLost at the deadline, or if another holder has the Lease."""
        if not self._giving_back:
            self._wake.clear()
        again = self._sent + self._config.renewal_pause()
        while True:
            await pause(self._wake, until=min(again, self.deadline))
            if self._giving_back:
                return
            self._wake.clear()
            again = clock.monotonic() + self._config.renewal_pause()
            try:
                async with asyncio.timeout_at(self.deadline):
                    await self._renew()
            except TimeoutError:
                again = -math.inf  # the next attempt finds that no time is left
            except (Conflict, AlreadyExists, NotFound) as error:
                # An earlier renewal whose answer was lost, or another client, has changed the Lease: read it
                # again.
                self._error.report(f"lease {self._leases} is not as it was left", error)
                again = clock.monotonic() + self._timing.retry_period * _CONTENDED
            except KubeError as error:
                self._error.report(f"cannot renew lease {self._leases}", error)
            else:
                self._error.clear()
                again = self._sent + self._config.renewal_pause()
                waits = self._may_state and not self.held.is_set()
                if waits and self._agreement.is_settled(self._view.lease):
                    self._begin()

    async def _renew(self) -> None:
        view, identity = self._view, self._config.identity
        view.doubtful = view.doubtful or view.holder != identity
        base = await view.base(self._leases, timeout=self._time_left())
        if view.holder != identity:
            holder = f"held by {view.holder}" if view.holder else "released by somebody"
            raise LeadershipLost(f"lease {self._leases} is now {holder}")
        if self._may_state:
            base = self._agreement.settled(base)
        self._sent = await view.claim(self._leases, base, timeout=self._time_left())
        self._guard.renewed(self._leases.name, self.deadline)
        if self.held.is_set():
            self.leadership.renewed(self.deadline)

    def _time_left(self) -> float:
        left = self.deadline - clock.monotonic()
        if left <= TIMER_ERROR:
            why = self._error.problem or "this process was held up"
            deadline = format_duration(self._timing.renew_deadline)
            raise LeadershipLost(f"lease {self._leases} could not be renewed for {deadline}: {why}")
        return min(left, self._timing.attempt_timeout)

    async def _release(self) -> None:
        """Release the Lease if we hold it; if that fails, other replicas wait until it expires."""
        view = self._view
        # Half of the time, so that after a lost answer the other half is left for reading the lease.
        timeout = self.release_within / 2
        try:
            async with asyncio.timeout(self.release_within):
                while True:
                    try:
                        base = await view.base(self._leases, timeout=timeout)
                        if view.lease is not None and view.holder == self._config.identity:
                            await view.write(self._leases, base.released(now=clock.now()), timeout=timeout)
                            _log.info("released the lease", lease=str(self._leases))
                        return
                    except KubeError as error:
                        self._error.report(f"cannot release lease {self._leases}", error)
                        await asyncio.sleep(self.release_within * _PAUSE)
        except TimeoutError:
            _log.warning(
                "cannot release the lease: other replicas wait until it expires", lease=str(self._leases)
            )


class LeaderElector(Coordinator):
    """The election of one leader among the replicas that use the same Lease. It can be used once.

    Two replicas never write as leaders at the same time, under three conditions. Their clocks' rates differ
    by less than `lease_duration / renew_deadline`. No other program edits the Lease. No write waits inside
    the API server for longer than the difference between the two durations. docs/limits.md lists the
    exceptions.
    """

    def __init__(self, config: ElectionConfig) -> None:
        super().__init__()
        self.identity = config.identity
        leases = Leases(config.transport, namespace=config.namespace, name=config.name)
        self._watcher = LeaseWatcher(config, leases)
        self._view = self._watcher.of(config.name)
        agreement = ShardCountAgreement(config, count=1)
        self._lock = LeaseLock(config, leases, self._watcher, ProcessGuard(config), agreement, self._begin)

    @property
    def elected(self) -> asyncio.Event:
        """Return the event that is set when this replica becomes the leader."""
        return self._lock.held

    @property
    def leadership(self) -> Leadership:
        """Return the permission for effects outside of the cluster."""
        return self._lock.leadership

    @property
    def leader(self) -> str:
        """Return the identity of the leader, as far as this replica knows; empty without a leader."""
        leads = self.elected.is_set() and not self._stop.is_set() and clock.monotonic() < self._lock.deadline
        return self.identity if leads else self._view.holder

    @property
    def problem(self) -> str | None:
        """Return why this replica cannot read, take or renew the lease; None if it can."""
        return self._lock.problem or (None if self.elected.is_set() else self._watcher.problem)

    async def release(self, *, within: float = 5.0) -> None:
        """End the election, and give the lease back if we hold it: another replica takes over at once.

        The leader's work must have ended. Takes at most `within` seconds after a request in flight has ended.
        """
        self._lock.release_within = within
        self._lock.give_up()
        await super().release()

    async def _take_part(self) -> None:
        self._lock.wanted.set()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watcher.run(), name="watch the lease")
            try:
                acquired = await self._lock.acquire()
            finally:
                watching.cancel()
        if acquired:
            await self._lock.hold()

    def _end(self) -> None:
        self._lock.ended("the election is over")

    def _begin(self) -> None:
        _log.info("became the leader", lease=str(self._lock), identity=self.identity)
        self._start_work()
