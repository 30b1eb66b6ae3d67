"""Many pods of a usual size, and what it costs the manager to know their metadata."""

from __future__ import annotations

import contextlib
import dataclasses
import http
import tempfile
import time
import urllib.request
from pathlib import Path

from benchmarks.convergence import peak_mb
from benchmarks.peers.ours import manager
from benchmarks.pod_store import encode_pod, store_pods
from benchmarks.program import Setting
from tests.support.crds import install_crds
from tests.support.daemon import wait_until
from tests.support.envtest import BARE, EnvtestControlPlane
from tests.support.ports import PortBlock

TIMEOUT = 600.0
# After the first sync, until what it needed has been given back.
SETTLED = 10.0
MB = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodsWatched:
    """One start of the manager with this many pods there."""

    pods: int
    seconds_to_sync: float
    """From the start of the process until it is ready."""
    cpu_seconds: float
    """The CPU used until then."""
    peak_mb: float
    """The largest resident memory."""
    mb: float
    """The resident memory some seconds later."""


def measure_pods(count: int) -> list[PodsWatched]:
    """Start the manager once with no pods and once with `count`."""
    with tempfile.TemporaryDirectory() as folder, EnvtestControlPlane(Path(folder), parts=BARE) as plane:
        install_crds(plane)
        results = [_watch(plane, 0)]
        store_pods(plane.etcd, count)
        results.append(_watch(plane, count))
    return results


def pod_bytes() -> int:
    """The size of one pod as JSON."""
    return len(encode_pod(0))


def _watch(plane: EnvtestControlPlane, count: int) -> PodsWatched:
    with PortBlock(1) as ports:
        address = f"127.0.0.1:{ports[0]}"
        process = manager().daemon(plane.kubeconfig, plane.folder, Setting(health_address=address))
        started = time.monotonic()
        process.start()
        try:
            wait_until(process, lambda: _is_ready(address), timeout=TIMEOUT, what="readiness")
            seconds, cpu = time.monotonic() - started, process.cpu_seconds()
            time.sleep(SETTLED)
            return PodsWatched(
                pods=count,
                seconds_to_sync=seconds,
                cpu_seconds=cpu,
                peak_mb=peak_mb(process),
                mb=process.resident_bytes() / MB,
            )
        finally:
            process.stop()


def _is_ready(address: str) -> bool:
    with (
        contextlib.suppress(OSError),
        urllib.request.urlopen(f"http://{address}/readyz", timeout=5) as answer,
    ):
        return bool(answer.status == http.HTTPStatus.OK)
    return False
