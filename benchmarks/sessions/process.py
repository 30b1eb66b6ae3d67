"""A running program: its readiness and its resource usage."""

from __future__ import annotations

import contextlib
import http
import http.client
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.api_access import ApiFailure
from tests.support.daemon import DaemonDied
from tests.support.ports import PortBlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.program import Program, Setting
    from tests.support.daemon import Daemon
    from tests.support.envtest import EnvtestControlPlane

MB = 1 << 20
POLL = 0.01
READY_WITHIN = 60.0
# A program is idle if its share of CPU stays below this limit for this many seconds.
QUIET, QUIET_SHARE = 0.5, 0.04

# Failures of a measured program that do not end the run. Timeouts and missing processes are OSErrors.
FAILURES = (
    OSError,
    DaemonDied,
    ApiFailure,
    http.client.HTTPException,
    LookupError,
    ExceptionGroup,
    AssertionError,
)
LONGEST = 160
LOG = "; the end of its log"


class Machine:
    """The load of all processors since the construction of this Machine (Linux)."""

    def __init__(self) -> None:
        self._before = self._times()

    def idle_share(self) -> float:
        """Return the share of idle processor time since the Machine was constructed, from 0 to 1."""
        idle, total = (now - then for now, then in zip(self._times(), self._before, strict=True))
        return idle / total if total else 0.0

    @staticmethod
    def _times() -> tuple[int, int]:
        # The fields are user, nice, system, idle, iowait, irq, softirq, steal; user time includes guests.
        first = Path("/proc/stat").read_text().splitlines()[0]
        times = [int(value) for value in first.split()[1:9]]
        return times[3] + times[4], sum(times)


@contextlib.contextmanager
def health_ports(count: int = 1) -> Iterator[list[str]]:
    with PortBlock(count) as block:
        yield [f"127.0.0.1:{block[index]}" for index in range(count)]


@contextlib.contextmanager
def started(
    program: Program, plane: EnvtestControlPlane, setting: Setting, *, replica: str = ""
) -> Iterator[Daemon]:
    process = program.daemon(plane.kubeconfig, plane.folder, setting, replica=replica)
    process.start()
    try:
        yield process
    finally:
        process.stop(grace=3.0)


def wait_ready(process: Daemon, address: str, timeout: float = READY_WITHIN) -> float:
    """Wait until /readyz responds with 200; return the time of the response (monotonic seconds).

    Raises TimeoutError after `timeout` seconds, and DaemonDied if the process ends.
    """
    deadline = time.monotonic() + timeout
    while not _is_ready(address):
        process.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{process.name}: not ready within {timeout:g} s; {process.tail()}")
        time.sleep(POLL)
    return time.monotonic()


def wait_quiet(
    process: Daemon, *, at_least: float = 1.0, timeout: float = READY_WITHIN, share: float = QUIET_SHARE
) -> float | None:
    """Wait `at_least` seconds, then until the process is idle.

    Return the time since which it is idle, at most `QUIET` late, or None after `timeout` seconds.
    """
    idle_since, before = time.monotonic(), process.cpu_seconds()
    deadline, earliest = idle_since + timeout, idle_since + at_least
    while time.monotonic() < deadline:
        time.sleep(QUIET)
        process.check()
        used = process.cpu_seconds()
        if used - before > share * QUIET:
            idle_since = time.monotonic()
        elif time.monotonic() >= earliest:
            return idle_since
        before = used
    return None


def forget_peak(process: Daemon) -> None:
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")


def resident_mb(process: Daemon) -> float:
    return process.resident_bytes() / MB


def peak_mb(process: Daemon) -> float:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise LookupError(f"{process.name} has ended")


def _is_ready(address: str) -> bool:
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection(address, timeout=5.0)
        with contextlib.closing(connection):
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK
    return False


def reason_of(error: BaseException) -> str:
    """Return an error in one line for a table's footnote, with the last output line of a dead program."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    said, has_log, log = str(error).partition(LOG)
    reason = (said.strip().splitlines() or [type(error).__name__])[0]
    lines = [line for line in log.splitlines()[1:] if line.strip()]
    if has_log and lines and isinstance(error, DaemonDied):
        reason += f": {lines[-1].strip()}"
    return reason if len(reason) <= LONGEST else reason[: LONGEST - 1] + "…"
