"""A standby's wait for the lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from manager import clock
from manager.kube.errors import AlreadyExists, ApiError, Conflict, KubeError, NotFound, ServerError
from manager.leader.lease import Lease, LeaseTiming
from manager.leader.lease_client import LeaseClient, Troubles
from manager.leader.lookout import Lookout, pause


@dataclass(frozen=True, slots=True)
class Claim:
    """A lease taken: as the server stored it, and the local time at which the claim was sent.

    `since` is the local time of the last sign of who had it before; None if nobody had.
    """

    lease: Lease
    sent: float
    since: float | None = None


class Candidacy:
    """Waits until the lease is free or its holder has been silent for too long, and takes it.

    It claims on what the lookout sees, so that a request which hangs delays nobody's looking.
    """

    def __init__(
        self,
        leases: LeaseClient,
        lookout: Lookout,
        *,
        identity: str,
        timing: LeaseTiming,
        troubles: Troubles,
        claimed: Callable[[Lease], Lease],
    ) -> None:
        """`claimed` is what the lease is to be like when it is taken."""
        self._leases = leases
        self._identity = identity
        self._timing = timing
        self._troubles = troubles
        self._claimed = claimed
        self._view = lookout.of(leases.name)
        lookout.listen(self._seen)
        self._wake = asyncio.Event()
        self._wants = False
        self._uncertain = False

    @property
    def lease(self) -> Lease | None:
        """The lease as last seen."""
        return self._view.lease

    @property
    def uncertain(self) -> bool:
        """Whether the answer to the last claim was lost, so that we may hold the lease without knowing."""
        return self._uncertain

    def want(self, wants: bool) -> None:
        """Try for the lease from now on, or have `win` return, after the claim in flight if there is one."""
        self._wants = wants
        self._wake.set()

    async def win(self) -> Claim | None:
        """Wait for the lease, however long it takes; return None once it is not wanted."""
        while self._wants:
            self._wake.clear()
            if self._view.claimable(clock.monotonic()):
                claim = await self._claim()
                if claim is not None:
                    return claim
            await pause(self._wake, until=self._view.claimable_at())
        return None

    async def _claim(self) -> Claim | None:
        base = self._view.lease or Lease.new(namespace=self._leases.namespace, name=self._leases.name)
        since = None if self._view.lease is None else self._view.since
        # Whatever comes of it, the lease has to be seen again before the next claim. Said before the request,
        # because the watch may show it while the answer is on its way.
        self._view.doubt()
        timeout = self._timing.attempt_timeout
        try:
            if base.is_outline:
                whole = await self._leases.read(timeout=timeout)
                if whole is None or whole.version != base.version:
                    return None
                base = whole
            wanted = self._claimed(base).claimed(
                identity=self._identity, seconds=self._timing.lease_seconds, now=clock.now()
            )
            sent = clock.monotonic()
            wanted = wanted.sent(self._timing.clock, sent)
            lease = await self._leases.write(wanted, timeout=timeout)
        except (Conflict, AlreadyExists, NotFound) as error:
            self._uncertain = False
            if isinstance(error, NotFound) and base.version is None:
                self._troubles.report(f"cannot create lease {self._leases}", error)
                self._view.doubt()
            elif isinstance(error, AlreadyExists):
                await self._look()
            return None  # somebody was faster
        except KubeError as error:
            self._uncertain = not isinstance(error, ApiError) or isinstance(error, ServerError)
            self._troubles.report(f"cannot take lease {self._leases}", error)
            self._view.doubt()  # also if it was shown meanwhile: only a look ends these troubles
            return None
        self._uncertain = False
        self._troubles.clear()
        if clock.monotonic() - sent >= self._timing.renew_deadline:
            # The process was held up while the answer waited, too long to rely on it. The next look finds our
            # own name in the lease, and claims again.
            return None
        return Claim(lease, sent, since)

    async def _look(self) -> None:
        """Read a lease that the lookout may not be told of: who made it did not know its label."""
        try:
            lease = await self._leases.read(timeout=self._timing.attempt_timeout)
        except KubeError as error:
            self._troubles.report(f"cannot read lease {self._leases}", error)
            return
        if lease is not None:
            self._view.saw(lease, now=clock.monotonic())

    def _seen(self, asked: bool) -> None:
        if asked:
            self._uncertain = False
        if not self._view.claimable(clock.monotonic()):
            # Else a claim follows, which has troubles of its own: those of the last one are not over yet.
            self._troubles.clear()
        self._wake.set()
