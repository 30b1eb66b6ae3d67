"""The configuration of an election: the Lease, the replica, the durations."""

from __future__ import annotations

import math
import socket
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from manager.telemetry.watchdog import Watchdog
from manager.util.duration import format_duration

_LEASE = "--leader-elect-lease-duration"
_RENEW = "--leader-elect-renew-deadline"
_RETRY = "--leader-elect-retry-period"

_RETRY_JITTER = 1.2
_MOST = 2**31 - 1  # the limit of the server's types


def new_identity(rng: Random) -> str:
    """Return `<host name>_<uuid>`, new for each process.

    A container that is started again in the same pod must not take its predecessor's lease for its own. So
    `rng` must not be seeded alike in two replicas.
    """
    return f"{socket.gethostname()}_{uuid.UUID(int=rng.getrandbits(128), version=4)}"


def host_clock() -> str:
    """Return a name for the monotonic clock of this host, or "" where that cannot be told.

    Processes of one host name and one boot of the kernel read the same clock. The host name is a part of it
    because machines that were cloned while they ran may have the boot in common, and not the clock.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""
    return f"{socket.gethostname()}/{boot}"


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """The three durations of an election, in seconds; ValueError, which names the flag, if they do not fit.

    A leader that has not renewed for `renew_deadline` stops; the others wait `lease_duration` after the last
    change before they take over. The difference is the margin for clocks that run at different rates, and for
    the last writes of the old leader to die. `retry_period` lies between renewals, and between a standby's
    looks. `clock` names the monotonic clock of this process (`host_clock`), if others read it.
    """

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    clock: str = ""

    def __post_init__(self) -> None:
        flags = {_LEASE: self.lease_duration, _RENEW: self.renew_deadline, _RETRY: self.retry_period}
        for flag, value in flags.items():
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{flag} must be longer than zero, not {value:g}s")
        if self.lease_seconds > _MOST:
            raise ValueError(f"{_LEASE} must be at most {_MOST}s, not {self.lease_seconds}s")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError(
                f"{_LEASE} ({format_duration(self.lease_duration)}) must be longer than "
                f"{_RENEW} ({format_duration(self.renew_deadline)}): "
                "the leader has to stop before the others take over"
            )
        if self.renew_deadline <= self.retry_period * _RETRY_JITTER:
            raise ValueError(
                f"{_RENEW} ({format_duration(self.renew_deadline)}) must be longer than {_RETRY_JITTER:g} "
                f"times {_RETRY} ({format_duration(self.retry_period)}): "
                "the leader needs time for more than one try"
            )

    @property
    def lease_seconds(self) -> int:
        """The lease duration for the record: whole seconds, rounded up so that no replica waits less."""
        return math.ceil(self.lease_duration)

    @property
    def attempt_timeout(self) -> float:
        """Seconds for one request: the deadline leaves time for a second one, on a new connection."""
        return max(self.retry_period, self.renew_deadline / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionConfig:
    """The Lease of an election, and the replica that takes part in it.

    Names of other Leases begin with `name`, the leader's. `transport` is fenced when one is lost. `watchdog`
    ends the process if it is still there shortly before another one may take over.
    """

    transport: Transport
    namespace: str
    name: str
    identity: str
    rng: Random
    metrics: Metrics
    timing: LeaseTiming = LeaseTiming()
    watchdog: Watchdog = field(default_factory=Watchdog)
