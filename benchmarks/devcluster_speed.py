"""Measure the speed of devcluster, compared with the real control plane.

    python -m benchmarks.devcluster_speed [--only start requests watch objects]

The real control plane is measured if KUBEBUILDER_ASSETS names the folder with its programs. Each client has
its own process. The CPU time is the sum over the server's processes; on a busy machine it is more reliable
than the rate.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import http.client
import json
import os
import re
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.api_load import CONFIG_MAPS
from benchmarks.program import ROOT
from benchmarks.table import table
from tests.support.crds import install_crds
from tests.support.devcluster_plane import PROGRAM, DevclusterControlPlane
from tests.support.envtest import BARE, EnvtestControlPlane, why_not

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tests.support.control_plane import ControlPlane
    from tests.support.daemon import Daemon

    Rows = list[list[Any]]

STARTS = 5
# The order matters: the first kinds create the objects that later kinds use.
KINDS = ("create ConfigMap", "get ConfigMap", "apply ConfigMap", "create custom object", "patch status")
REQUESTS = 5_000
LISTED = 5_000
HELD = 50_000
EVENTS = 500
TIMEOUT = 300.0


@dataclasses.dataclass(slots=True)
class Served:
    """A running control plane, and the processes whose CPU and memory are measured."""

    plane: ControlPlane
    processes: list[Daemon]

    def run(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Run a job of `api_load` in its own process; raise OSError if it fails.

        Return the job's result with the server's CPU seconds added.
        """
        before = self.cpu_seconds()
        with self.begin(do, **arguments) as job:
            output, _ = job.communicate(timeout=TIMEOUT)
        if job.returncode:
            raise OSError(f"{do} failed with {job.returncode}")
        result: dict[str, Any] = json.loads(output.splitlines()[-1])
        return {**result, "cpu": self.cpu_seconds() - before}

    def begin(self, do: str, **arguments: Any) -> subprocess.Popen[str]:
        """Start a job of `api_load`, and return its process."""
        job = json.dumps({"do": do, **arguments})
        command = [sys.executable, "-m", "benchmarks.api_load", str(self.plane.kubeconfig), job]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that all processes have used so far."""
        return sum(process.cpu_seconds() for process in self.processes)

    def resident_mb(self) -> float:
        """Return the memory of all processes in MB."""
        return sum(process.resident_bytes() for process in self.processes) / (1 << 20)


@contextlib.contextmanager
def devcluster(folder: Path) -> Iterator[Served]:
    with DevclusterControlPlane(folder, parts=BARE) as plane:
        install_crds(plane)
        yield Served(plane, [plane.process])


@contextlib.contextmanager
def real(folder: Path) -> Iterator[Served]:
    with EnvtestControlPlane(folder, parts=BARE, measured=True) as plane:
        install_crds(plane)
        yield Served(plane, [plane.part(name) for name in BARE])


def start_seconds() -> float:
    # The client skips verification, because loading a certificate store takes time.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    started = time.monotonic()
    with subprocess.Popen([str(PROGRAM), "up"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = ""
        for line in process.stdout:
            output += line
            if "ready" in line:
                break
        found = re.search(r"https://(\S+)", output)
        assert found, output
        client = http.client.HTTPSConnection(found[1], timeout=10.0, context=context)
        client.request("GET", "/version")
        client.getresponse().read()
        seconds = time.monotonic() - started
        client.close()
        process.terminate()
        process.stdout.read()
    return seconds


def both(measure: Callable[[Served], Rows]) -> Rows:
    """Measure devcluster and, if installed, the real control plane; return rows with a column for each."""

    def on(server: Callable[[Path], AbstractContextManager[Served]]) -> Rows:
        with tempfile.TemporaryDirectory() as folder, server(Path(folder, "plane")) as served:
            return measure(served)

    ours = on(devcluster)
    return ours if why_not() else [one + other[1:] for one, other in zip(ours, on(real), strict=True)]


def start() -> Rows:
    return [["start, s", statistics.median(start_seconds() for _ in range(STARTS))]]


def requests() -> Rows:
    rows = both(lambda served: [[kind, *_load(served, kind, REQUESTS)] for kind in KINDS])
    return [[*row, row[1] / row[3]] if len(row) > 3 else row for row in rows]


def watch() -> Rows:
    def measure(served: Served) -> Rows:
        job = served.begin("watch", events=EVENTS)
        try:
            assert job.stdout is not None
            job.stdout.readline()
            served.run("writes", count=EVENTS, rate=100.0)
            output, _ = job.communicate(timeout=TIMEOUT)
        finally:
            job.kill()
            job.wait()
        result: dict[str, float] = json.loads(output.splitlines()[-1])
        return [["event of a watch, ms p50 p99", result["p50"], result["p99"]]]

    return both(measure)


def objects() -> Rows:
    def listed(served: Served, query: str = "") -> list[float]:
        found = served.run("one", path=f"{CONFIG_MAPS}{query}")
        return [found["seconds"], found["bytes"] / 1e6]

    def measure(served: Served) -> Rows:
        empty = served.resident_mb()
        _load(served, "create ConfigMap", LISTED)
        whole = listed(served)
        _load(served, "create ConfigMap", HELD - LISTED, first=LISTED)
        return [
            [f"list of {LISTED}, s, MB", *whole],
            [f"page of 500 of {HELD}, s, MB", *listed(served, "?limit=500")],
            [f"list of {HELD}, s, MB", *listed(served)],
            [f"memory without and with {HELD}, MB", empty, served.resident_mb()],
        ]

    return both(measure)


HEADER = ["", "devcluster", "", "real", ""]
PARTS: dict[str, tuple[Callable[[], Rows], list[str]]] = {
    "start": (start, HEADER[:2]),
    "requests": (requests, ["", "/s", "CPU us", "real /s", "real CPU us", "times as fast"]),
    "watch": (watch, HEADER),
    "objects": (objects, HEADER),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    if reason := why_not():
        print(f"without the real control plane: {reason}", file=sys.stderr)
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}", file=sys.stderr)
    for name in options.only:
        measure, header = PARTS[name]
        print(table(header, [row + [""] * (len(header) - len(row)) for row in measure()]))
        print(flush=True)


def _load(served: Served, kind: str, count: int, **more: Any) -> list[float]:
    result = served.run("requests", kind=kind, count=count, **more)
    return [result["rate"], result["cpu"] / count * 1e6]


if __name__ == "__main__":
    main()
