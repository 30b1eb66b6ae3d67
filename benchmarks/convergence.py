"""Many Memcacheds wait when the program starts; how long until each has its Deployment and its status?"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.status_watch import StatusWatch
from tests.support.crds import install_crds
from tests.support.envtest import BARE, EnvtestControlPlane
from tests.support.memcacheds import memcached, memcached_path

if TYPE_CHECKING:
    from benchmarks.program import Program, Setting
    from tests.support.daemon import Daemon
    from tests.support.openmetrics import Samples

TIMEOUT = 600.0
# How long to look for writes that a converged system should not make.
QUIET = 3.0
WRITE_VERBS = {"POST", "PUT", "PATCH", "APPLY", "DELETE"}
OURS = {"memcacheds", "deployments"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """One program, one round."""

    program: str
    from_start: float
    """Objects a second, from the start of the process to the last status."""
    at_work: float
    """Objects a second, from the first status to the last."""
    cpu_ms: float
    """The program's CPU per object while at work, in ms."""
    total_cpu: float
    """All of the program's CPU, its start included, in seconds."""
    server_cpu_ms: float
    """The API server's CPU per object from the start of the process, in ms."""
    peak_mb: float
    """The program's largest resident memory."""
    writes: float
    """Writes to Memcacheds and Deployments per object."""
    events: float
    """Writes of Events per object."""
    conflicts: int
    """Requests answered with 409."""
    late_writes: int
    """Writes in the seconds after the last status."""
    requests: dict[str, int]
    """All requests of the program by verb, resource and code."""


def measure(program: Program, objects: int, setting: Setting) -> Convergence:
    """Run one round on a control plane of its own."""
    with tempfile.TemporaryDirectory() as folder, EnvtestControlPlane(Path(folder), parts=BARE) as plane:
        install_crds(plane)
        names = [f"bench-{index}" for index in range(objects)]
        plane.api.create_many(memcached_path("default"), map(memcached, names))
        with StatusWatch(plane) as watch:
            return _run(program, plane, watch, objects, setting)


def _run(
    program: Program, plane: EnvtestControlPlane, watch: StatusWatch, objects: int, setting: Setting
) -> Convergence:
    server = plane.part("apiserver")
    before, server_cpu = plane.server_metrics(), server.cpu_seconds()
    process = program.daemon(plane.kubeconfig, plane.folder, setting)
    started = time.monotonic()
    process.start()
    try:
        watch.wait(1, process, TIMEOUT)
        first_cpu, already = process.cpu_seconds(), len(watch.converged)
        watch.wait(objects, process, TIMEOUT)
        cpu, peak, server_cpu = process.cpu_seconds(), peak_mb(process), server.cpu_seconds() - server_cpu
        done = plane.server_metrics()
        time.sleep(QUIET)
        late = _writes(done, plane.server_metrics(), OURS)
    finally:
        process.stop()
    moments = sorted(watch.converged.values())
    return Convergence(
        program=program.name,
        from_start=objects / (moments[-1] - started),
        at_work=(objects - 1) / (moments[-1] - moments[0]),
        cpu_ms=(cpu - first_cpu) / (objects - already) * 1000,
        total_cpu=cpu,
        server_cpu_ms=server_cpu / objects * 1000,
        peak_mb=peak,
        writes=_writes(before, done, OURS) / objects,
        events=_writes(before, done, {"events"}) / objects,
        conflicts=round(done.increase_since(before, "apiserver_request_total", code="409")),
        late_writes=round(late),
        requests=_requests(before, done),
    )


def peak_mb(process: Daemon) -> float:
    """The largest resident memory so far (Linux)."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise LookupError(f"{process.name} has ended")


def _requests(before: Samples, after: Samples) -> dict[str, int]:
    counts = {
        " ".join(filter(None, map(sample.labels.get, ("verb", "resource", "subresource", "code")))): round(
            after.value(sample.name, **sample.labels) - before.value(sample.name, **sample.labels)
        )
        for sample in after.select("apiserver_request_total")
        # The server's own traffic with itself is no news.
        if sample.labels["resource"] in OURS | {"pods", "events", "leases", "customresourcedefinitions"}
    }
    return {name: count for name, count in sorted(counts.items()) if count}


def _writes(before: Samples, after: Samples, resources: set[str]) -> float:
    return sum(
        after.value(sample.name, **sample.labels) - before.value(sample.name, **sample.labels)
        for sample in after.select("apiserver_request_total")
        if sample.labels["verb"] in WRITE_VERBS and sample.labels["resource"] in resources
    )
