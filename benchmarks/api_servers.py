"""The API servers under measurement, and the client processes that measure them."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import re
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.support.daemon import Daemon, wait_until
from tests.support.devcluster_plane import PROGRAM, DevclusterControlPlane
from tests.support.envtest import BARE, EnvtestControlPlane
from tests.support.manager_process import run_once

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.control_plane import ControlPlane

ROOT = Path(__file__).parents[1]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JOB_TIMEOUT = 300.0
START_TIMEOUT = 60.0


@dataclasses.dataclass(slots=True)
class Served:
    """A server that runs: how to reach it, and the processes that are its cost."""

    kubeconfig: Path
    processes: list[Daemon]
    plane: ControlPlane | None = None

    def run(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Run a job of `api_load` in its own process; return its result with the server's CPU seconds added.

        Raises:
            OSError: the job failed.
        """
        before = self.cpu_seconds()
        with self.begin(do, **arguments) as job:
            output, _ = job.communicate(timeout=JOB_TIMEOUT)
        if job.returncode:
            raise OSError(f"{do} failed with {job.returncode}")
        result: dict[str, Any] = json.loads(output.splitlines()[-1])
        return {**result, "cpu": self.cpu_seconds() - before}

    def begin(self, do: str, **arguments: Any) -> subprocess.Popen[str]:
        """Start a job of `api_load`, and return its process."""
        job = json.dumps({"do": do, **arguments})
        command = [sys.executable, "-m", "benchmarks.api_load", str(self.kubeconfig), job]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds used by all processes so far."""
        return sum(process.cpu_seconds() for process in self.processes)

    def resident_mb(self) -> float:
        """Return the memory of all processes in MB."""
        return sum(process.resident_bytes() for process in self.processes) / (1 << 20)


@contextlib.contextmanager
def devcluster(folder: Path, *, persistent: bool = False, controllers: bool = False) -> Iterator[Served]:
    """Run a devcluster."""
    parts = (*BARE, "controllers") if controllers else BARE
    with DevclusterControlPlane(folder, parts=parts, persistent=persistent) as plane:
        yield _with_definitions(Served(plane.kubeconfig, [plane.process], plane))


@contextlib.contextmanager
def real(folder: Path) -> Iterator[Served]:
    """Run a bare control plane: etcd and kube-apiserver."""
    with EnvtestControlPlane(folder, parts=BARE, measured=True) as plane:
        yield _with_definitions(Served(plane.kubeconfig, [plane.part(name) for name in BARE], plane))


@contextlib.contextmanager
def echo(folder: Path) -> Iterator[Served]:
    """Run a bare aiohttp server."""
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "benchmarks.echo", str(folder)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = Daemon("echo", command, log=folder / "echo.log", environ=environ)
    process.start()
    try:
        kubeconfig = folder / "kubeconfig"
        wait_until(process, kubeconfig.exists, timeout=START_TIMEOUT, what="its kubeconfig")
        yield Served(kubeconfig, [process])
    finally:
        process.stop()


def start_seconds(data: Path | None = None, *, environ: Mapping[str, str] | None = None) -> float:
    """Return the seconds from the start of `devcluster up` until its first response."""
    command = [str(PROGRAM), "up", *([f"--data={data}"] if data else [])]
    # The client skips verification, because loading a certificate store takes time.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    started = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environ or {})}
    ) as process:
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


def _with_definitions(served: Served) -> Served:
    """Install the manager's CRDs."""
    assert served.plane is not None
    done = run_once("crds", folder=served.plane.folder)
    for definition in yaml.safe_load_all(done.stdout):
        served.plane.api.create(DEFINITIONS, definition)
        _wait_established(served.plane, definition["metadata"]["name"])
    return served


def _wait_established(plane: ControlPlane, name: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        status = plane.api.get(f"{DEFINITIONS}/{name}").get("status", {})
        conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
        if conditions.get("Established") == "True":
            return
        time.sleep(0.05)
    raise TimeoutError(f"{name} was not established")
