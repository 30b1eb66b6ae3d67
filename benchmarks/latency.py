"""New Memcacheds come at a steady rate; how long after each is seen does its status follow?"""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.status_watch import StatusWatch
from tests.support.crds import install_crds
from tests.support.envtest import BARE, EnvtestControlPlane
from tests.support.memcacheds import memcached, memcached_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.program import Program, Setting

PROBE = "probe"
CREATORS = 8
TIMEOUT = 300.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """One program at one rate."""

    program: str
    rate: int
    """New objects a second that were asked for."""
    reached: float
    """New objects a second that the API server took."""
    p50_ms: float
    p99_ms: float
    worst_ms: float


def measure(program: Program, rate: int, seconds: int, setting: Setting) -> Latency:
    """Run one program at one rate on a control plane of its own."""
    with tempfile.TemporaryDirectory() as folder, EnvtestControlPlane(Path(folder), parts=BARE) as plane:
        install_crds(plane)
        process = program.daemon(plane.kubeconfig, plane.folder, setting)
        process.start()
        with StatusWatch(plane) as watch:
            try:
                # It is at work once it has done something.
                plane.api.create(memcached_path("default"), memcached(PROBE))
                watch.wait(1, process, TIMEOUT)
                reached = _create(plane, rate, seconds)
                watch.wait(1 + rate * seconds, process, TIMEOUT)
            finally:
                process.stop()
    delays = sorted(
        (watch.converged[name] - seen) * 1000 for name, seen in watch.seen.items() if name != PROBE
    )
    return Latency(
        program=program.name,
        rate=rate,
        reached=reached,
        p50_ms=delays[len(delays) // 2],
        p99_ms=delays[len(delays) * 99 // 100],
        worst_ms=delays[-1],
    )


def _create(plane: EnvtestControlPlane, rate: int, seconds: int) -> float:
    """Create `rate` objects a second for so long, or as fast as it goes; return the rate that was reached."""
    path, total = memcached_path("default"), rate * seconds
    numbers: Iterator[int] = itertools.count()
    lock = threading.Lock()
    start = time.monotonic()

    def work() -> None:
        while True:
            with lock:
                number = next(numbers)
            if number >= total:
                return
            time.sleep(max(0.0, start + number / rate - time.monotonic()))
            plane.api.create(path, memcached(f"new-{number}"))

    with ThreadPoolExecutor(CREATORS) as pool:
        for done in [pool.submit(work) for _ in range(CREATORS)]:
            done.result()
    return total / (time.monotonic() - start)
