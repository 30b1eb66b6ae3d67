"""Giving a lease back."""

from __future__ import annotations

import asyncio

from manager import clock
from manager.kube.errors import KubeError
from manager.leader.errors import MalformedLease
from manager.leader.lease import Lease
from manager.leader.lease_client import LeaseClient
from manager.leader.troubles import Troubles

__all__ = ["release"]

# Part of the time there is to wait after a failure.
_PAUSE = 0.04


async def release(
    leases: LeaseClient, held: Lease | None, *, identity: str, within: float, troubles: Troubles
) -> bool:
    """Mark the lease as free if `identity` holds it; return whether it surely does not hold it any more.

    `held` is the lease as we hold it, or None to read it first. Tries again, within `within` seconds in all;
    when that fails, the others have to wait until the lease expires.
    """
    pause = within * _PAUSE
    until = clock.monotonic() + within
    while (left := until - clock.monotonic()) > 0:
        # Half of what is left: after an answer that was lost there is time to look what became of it.
        timeout = max(left / 2, pause)
        try:
            if held is None:
                held = await leases.read(timeout=timeout)
            if held is None or held.holder != identity:
                return True
            await leases.write(held.released(now=clock.now()), timeout=timeout)
        except (KubeError, MalformedLease) as error:
            troubles.report(f"cannot release lease {leases}", error)
            held = None
            await asyncio.sleep(pause)
        else:
            return True
    return False
