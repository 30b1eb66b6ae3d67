"""A leader's time in office."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from manager import clock
from manager.duration import format_duration
from manager.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from manager.leader.candidacy import Claim
from manager.leader.lease import LeadershipLost, Lease, LeaseTiming
from manager.leader.lease_client import LeaseClient, Troubles
from manager.leader.lookout import TIMER_ERROR, pause

# Renewals come a little early rather than late.
_RENEW = (0.9, 1.0)
# Part of a retry period to wait when the lease keeps changing under our renewals.
_CONTENDED = 0.1


class Tenure:
    """Keeps a lease renewed.

    The deadline counts from when the last renewal that is known to have succeeded was sent, not from when its
    answer came: the others count from when they saw it, which may be as early as that. A renewal whose answer
    was lost does not move the deadline, even if the server has it.
    """

    def __init__(
        self,
        leases: LeaseClient,
        claim: Claim,
        *,
        identity: str,
        timing: LeaseTiming,
        rng: Random,
        troubles: Troubles,
        renewed: Callable[[float], None],
    ) -> None:
        """`renewed` is called with the new deadline after each renewal."""
        self._leases = leases
        self._identity = identity
        self._timing = timing
        self._rng = rng
        self._troubles = troubles
        self._renewed = renewed
        self._lease = claim.lease
        self._sent = claim.sent
        self._doubtful = False
        self._mark: Callable[[Lease], Lease] | None = None
        self._marked = asyncio.Event()
        self._wake = asyncio.Event()
        self._stopping = False

    @property
    def deadline(self) -> float:
        """The loop time from which this process is no longer the leader, unless it renews before."""
        return self._sent + self._timing.renew_deadline

    async def mark(self, change: Callable[[Lease], Lease]) -> None:
        """Make that change with the next renewal, which is at once, and with each after it.

        Returns when the server has it.
        """
        self._mark = change
        self._wake.set()
        await self._marked.wait()

    def stop(self) -> None:
        """Make `hold` return, after the renewal in flight if there is one."""
        self._stopping = True
        self._wake.set()

    async def hold(self) -> None:
        """Renew until stopped; raise LeadershipLost at the deadline, or when somebody else has the lease."""
        while True:
            await pause(self._wake, until=self._sent + self._timing.retry_period * self._rng.uniform(*_RENEW))
            if self._stopping:
                return
            await self._renew()

    @property
    def lease(self) -> Lease | None:
        """The lease as we hold it; None when the server may have another version of it."""
        return None if self._doubtful else self._lease

    async def _renew(self) -> None:
        """Try until it succeeds."""
        while not self._stopping:
            self._wake.clear()
            started = clock.monotonic()
            try:
                async with asyncio.timeout_at(self.deadline):
                    await self._attempt()
            except TimeoutError:
                continue  # the next attempt finds that there is no time left
            except (Conflict, AlreadyExists, NotFound) as error:
                # Changed by an earlier renewal of ours whose answer was lost, or by somebody: read it again.
                self._doubtful = True
                self._troubles.report(f"lease {self._leases} is not as it was left", error)
                again = started + self._timing.retry_period * _CONTENDED
            except KubeError as error:
                self._doubtful = True
                self._troubles.report(f"cannot renew lease {self._leases}", error)
                again = started + self._timing.retry_period * self._rng.uniform(*_RENEW)
            else:
                self._troubles.clear()
                return
            await pause(self._wake, until=min(again, self.deadline))

    async def _attempt(self) -> None:
        if self._doubtful:
            current = await self._leases.read(timeout=self._time_left())
            if current is None:
                self._lease = self._lease.recreated()
            elif current.holder == self._identity:
                self._lease = current
            else:
                holder = f"held by {current.holder}" if current.holder else "released by somebody"
                raise LeadershipLost(f"lease {self._leases} is now {holder}")
        mark = self._mark
        base = self._lease if mark is None else mark(self._lease)
        wanted = base.claimed(identity=self._identity, seconds=self._timing.lease_seconds, now=clock.now())
        timeout = self._time_left()
        sent = clock.monotonic()
        wanted = wanted.sent(self._timing.clock, sent)
        # Set before, so that an attempt that is cut short leaves it set.
        self._doubtful = True
        self._lease = await self._leases.write(wanted, timeout=timeout)
        self._doubtful = False
        self._sent = sent
        self._renewed(self.deadline)
        if mark is not None:
            self._marked.set()

    def _time_left(self) -> float:
        left = self.deadline - clock.monotonic()
        if left <= TIMER_ERROR:
            why = self._troubles.problem or "this process was held up"
            deadline = format_duration(self._timing.renew_deadline)
            raise LeadershipLost(f"lease {self._leases} could not be renewed for {deadline}: {why}")
        return min(left, self._timing.attempt_timeout)
