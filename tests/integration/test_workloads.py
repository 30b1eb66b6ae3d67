"""examples/workloads, from its start until Ctrl-C ends it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.api_objects import deployment_path, object_path, pod_path
from tests.support.control_plane import ControlPlane, Feature
from tests.support.daemon import Daemon, wait_until
from tests.support.eventually import eventually
from tests.support.fault_proxy import FaultProxy

WITHIN = 90.0


@pytest.fixture
def own_namespace(control_plane: ControlPlane) -> Iterator[str]:
    """Yield a name for the program's namespace; delete the namespace after the test."""
    name = f"workloads-{secrets.token_hex(4)}"
    yield name
    with contextlib.suppress(Exception):
        control_plane.api.delete(f"/api/v1/namespaces/{name}")


@pytest.mark.contract
def test_workloads_example_deletes_its_namespace_after_sigint(
    control_plane: ControlPlane,
    own_namespace: str,
    fault_proxy: Callable[[Path], FaultProxy],
    tmp_path: Path,
):
    plane = control_plane.require(Feature.WORKLOADS, Feature.READY_PODS)
    proxy = fault_proxy(plane.kubeconfig)
    flags = (f"--kubeconfig={proxy.kubeconfig}", f"--namespace={own_namespace}")
    environ = {**os.environ, "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "examples.workloads", *flags]
    program = Daemon("workloads", command, log=tmp_path / "output.log", environ=environ)

    def says(text: str) -> None:
        wait_until(program, lambda: text in program.output(), timeout=WITHIN, what=text)

    def pods() -> dict[str, str]:
        found = plane.api.get(pod_path(own_namespace))["items"]
        return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in found}

    def says_of_each_pod(text: str) -> None:
        for pod in pods():
            says(text.format(pod))

    program.start()
    try:
        says("deployment hello-world: 2/2 ready")
        for pod, node in pods().items():
            says(f"pod {pod} runs on node {node}\n")
        says("following the pods' logs")
        assert plane.api.get(object_path("v1", own_namespace, "services", "hello-world"))
        ingress = plane.api.get(
            object_path("networking.k8s.io/v1", own_namespace, "ingresses", "hello-world")
        )
        path = ingress["spec"]["rules"][0]["http"]["paths"][0]
        assert (path["path"], path["backend"]["service"]["name"]) == ("/hello", "hello-world")
        # The program also follows a pod that is created later. If no node serves logs, the program says so.
        first = (
            "{} | hello-world: started" if plane.supports(Feature.POD_LOGS) else "no log of pod {} for now"
        )
        says_of_each_pod(first)
        plane.api.patch(deployment_path(own_namespace, "hello-world"), {"spec": {"replicas": 3}})
        eventually(lambda: len(pods()) == 3)
        says_of_each_pod(first)
        if plane.supports(Feature.POD_LOGS):
            # No line is lost when every connection breaks, and none comes twice.
            assert proxy.cut()
            says_of_each_pod("{} | hello-world: running for 5s")
            lines = [line for line in program.output().splitlines() if " | " in line]
            assert len(lines) == len(set(lines))
        program.signal(signal.SIGINT)
        assert program.wait(WITHIN) == 0
    finally:
        program.kill()
    assert plane.api.find(f"/api/v1/namespaces/{own_namespace}") is None
    assert "Traceback" not in program.output()
    assert program.output().splitlines()[-3:] == [
        "SIGINT: cleaning up (once more ends at once)",
        f"deleting namespace {own_namespace} ...",
        f"deleted namespace {own_namespace}",
    ]
