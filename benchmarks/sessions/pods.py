"""A session with many Pods of typical size that never change, to measure the cost of a cache."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from benchmarks.pod_store import last_stored, store_pods
from benchmarks.program import Setting
from benchmarks.sessions.plane import fresh_plane
from benchmarks.sessions.process import health_ports, peak_mb, resident_mb, started, wait_ready

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.program import Program
    from benchmarks.results import Recorder
    from tests.support.envtest import EnvtestControlPlane

WORKLOADS = ("pods-metadata", "pods")
SYNC_WITHIN = 90.0
SHOWN_WITHIN = 90.0
# Seconds after which the temporary memory of the sync is released.
SETTLE = 2.0


@contextlib.contextmanager
def plane_with_pods(count: int) -> Iterator[EnvtestControlPlane]:
    with fresh_plane() as plane:
        store_pods(plane.etcd, count)
        wait_shown(plane, last_stored(count))
        yield plane


def wait_shown(plane: EnvtestControlPlane, paths: Iterable[str]) -> None:
    """Wait until the API server's cache has the objects at `paths`; these must be the last stored objects.

    Until then, the API server refuses a watch of the objects, or ends it as too slow. Then the first measured
    program would have to repeat the watch.
    """
    deadline = time.monotonic() + SHOWN_WITHIN
    for path in paths:
        while plane.api.find(f"{path}?resourceVersion=0") is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the API server did not show {path} within {SHOWN_WITHIN:g} s")
            time.sleep(0.1)


def sync(
    plane: EnvtestControlPlane, program: Program, workload: str, number: int, recorder: Recorder
) -> None:
    with health_ports() as (address,):
        began = time.monotonic()
        with started(program, plane, Setting(workload=workload, health_address=address)) as process:
            ready, cpu = wait_ready(process, address, SYNC_WITHIN), process.cpu_seconds()
            time.sleep(SETTLE)
            figures = {
                "sync_s": ready - began,
                "cpu_s": cpu,
                "peak_mb": peak_mb(process),
                "mb": resident_mb(process),
            }
    recorder.record("memory", number, figures, group=workload)
