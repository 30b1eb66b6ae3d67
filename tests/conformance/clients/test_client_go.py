"""Kubernetes' own controllers, which use client-go, on an API server without other controllers."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane, Feature
from tests.support.daemon import Daemon
from tests.support.devcluster_plane import DevclusterControlPlane
from tests.support.envtest import STAGES, VARIABLE, node
from tests.support.eventually import eventually
from tests.support.ports import PortBlock

PROGRAMS = ("kube-controller-manager", "kwok")
ASSETS = Path(os.environ.get(VARIABLE) or "nowhere")
MISSING = [program for program in PROGRAMS if not (ASSETS / program).exists()]

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(MISSING), reason=f"{VARIABLE} has no {', '.join(MISSING)}"),
]


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """Start devcluster without its controllers; start Kubernetes' controllers and simulated nodes for it."""
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(DevclusterControlPlane(tmp_path / "plane", parts=("etcd", "apiserver")))
        assert not plane.supports(Feature.WORKLOADS)
        ports = stack.enter_context(PortBlock(2))
        for index, program in enumerate(PROGRAMS):
            command = [
                ASSETS / program,
                f"--kubeconfig={plane.kubeconfig}",
                *_flags(program, ports[index], tmp_path),
            ]
            daemon = Daemon(program, command, log=tmp_path / f"{program}.log")
            daemon.start()
            stack.callback(daemon.kill)
            # For the report of a failed test.
            stack.callback(lambda daemon=daemon: sys.stderr.write(daemon.tail()))
        plane.api.create("/api/v1/nodes", node("node-0"))
        yield plane


def _flags(program: str, port: int, folder: Path) -> Sequence[str]:
    if program == "kwok":
        nodes = ("--manage-all-nodes", "--node-ip=127.0.0.1", "--cidr=10.128.0.0/16")
        return (f"--config={STAGES}", *nodes, f"--server-address=127.0.0.1:{port}")
    server = ("--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={folder / program}")
    return ("--leader-elect=true", *server)


def test_kube_controller_manager_rolls_out_a_deployment_and_garbage_collects_its_children(
    plane: ControlPlane,
):
    api = plane.api
    eventually(lambda: api.get("/api/v1/namespaces/default/serviceaccounts/default"))
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    api.create(deployments, _deployment("nginx:1"))

    def status() -> Any:
        return api.get(f"{deployments}/web")["status"]

    eventually(lambda: status().get("availableReplicas") == 3)
    api.patch(f"{deployments}/web", _deployment("nginx:2"))
    eventually(lambda: (status().get("observedGeneration"), status().get("updatedReplicas")) == (2, 3))
    eventually(lambda: status().get("replicas") == status().get("availableReplicas") == 3)
    (image,) = {each["spec"]["containers"][0]["image"] for each in _pods(plane)}
    assert image == "nginx:2"
    api.delete(f"{deployments}/web", propagationPolicy="Background")
    eventually(lambda: _pods(plane) == [])
    eventually(lambda: api.get("/apis/apps/v1/namespaces/default/replicasets")["items"] == [])


def test_kube_controller_manager_deletes_a_namespace_with_its_contents(plane: ControlPlane):
    api = plane.api
    api.create("/api/v1/namespaces", {"metadata": {"name": "short-lived"}})
    api.create("/api/v1/namespaces/short-lived/configmaps", {"metadata": {"name": "one"}})
    api.delete("/api/v1/namespaces/short-lived")
    eventually(lambda: api.find("/api/v1/namespaces/short-lived") is None)
    assert api.get("/api/v1/namespaces/short-lived/configmaps")["items"] == []


def _pods(plane: ControlPlane) -> list[Any]:
    return plane.api.get("/api/v1/namespaces/default/pods")["items"]


def _deployment(image: str) -> dict[str, Any]:
    labels = {"app": "web"}
    # No scheduler: it waits for kinds that devcluster does not have.
    pod = {
        "nodeName": "node-0",
        "containers": [{"name": "web", "image": image}],
        "terminationGracePeriodSeconds": 0,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
