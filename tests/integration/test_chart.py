"""The chart as helm installs it after `make install`, and deployments that `make deploy` refuses."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from release.cli import main
from tests.conftest import StartControlPlane
from tests.support import makefile
from tests.support.control_plane import KUBECTL, ControlPlane, Feature
from tests.support.eventually import eventually
from tests.support.manifests import MANAGER, PETSTORE, SYSTEM
from tests.support.tools import tool

RELEASE = "operator-manager"
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"cost": "b"}},
}
PLACED = {
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "priorityClassName": "system-cluster-critical",
    "podAnnotations": {"team": "a"},
    "podLabels": {"cost": "b"},
    "resources": {"requests": {"cpu": "20m", "memory": "96Mi"}},
}
# Every value for scheduling, labels and annotations of pods.
VALUES = {
    "imagePullSecrets": [{"name": "registry"}],
    "manager": {
        **PLACED,
        "replicas": 2,
        "topologySpreadConstraints": [SPREAD],
        "serviceAccount": {"annotations": {"example.test/role": "operator"}},
        "podDisruptionBudget": {"maxUnavailable": "50%"},
    },
    "petstore": PLACED,
}


@pytest.fixture
def plane(own_control_plane: StartControlPlane) -> ControlPlane:
    return own_control_plane().require(Feature.WORKLOADS)


@pytest.fixture(scope="module")
def untouched(module_control_plane: StartControlPlane) -> ControlPlane:
    """Start a control plane for tests that create no objects on it."""
    return module_control_plane().require(Feature.WORKLOADS)


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist") / "chart"
    assert main(["chart", str(folder)]) == 0
    return folder


def helm(plane: ControlPlane, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [tool("helm"), *map(str, arguments), f"--kubeconfig={plane.kubeconfig}"]
    environ = {**os.environ, "HELM_CACHE_HOME": str(plane.kubeconfig.parent / "helm")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environ)


def done(process: subprocess.CompletedProcess[str]) -> str:
    assert process.returncode == 0, process.stderr
    return process.stdout


def make(plane: ControlPlane, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {"KUBECONFIG": str(plane.kubeconfig), **KUBECTL}
    program = f"KUBECTL={plane.kubectl_program()}"
    return makefile.make("--silent", *arguments, program, environ=environ, timeout=240)


def is_there(plane: ControlPlane, name: str, replicas: int) -> None:
    path = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{name}"
    status = plane.api.get(path)["status"]
    assert status.get("updatedReplicas") == replicas, status


@pytest.mark.timeout(600)
@pytest.mark.whole
def test_chart_adopts_objects_of_make_install_and_can_be_upgraded_and_uninstalled(
    plane: ControlPlane, chart: Path, tmp_path: Path
):
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(VALUES))
    assert make(plane, "install").returncode == 0

    place = (f"--namespace={SYSTEM}", "--create-namespace")
    refused = helm(plane, "install", RELEASE, chart, *place)
    assert "invalid ownership metadata" in refused.stderr
    said = done(helm(plane, "install", RELEASE, chart, *place, "--take-ownership"))
    notes = said.partition("NOTES:\n")[2]
    for name in (MANAGER, PETSTORE):
        assert f"kubectl --namespace {SYSTEM} rollout status deployment/{name}" in notes
        eventually(lambda name=name: is_there(plane, name, 1))

    rendered = done(
        helm(plane, "template", RELEASE, chart, place[0], f"--values={values}", "--kube-version=1.36")
    )
    strictly = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--filename=-")
    accepted = plane.kubectl("apply", *strictly, stdin=rendered)
    # kubectl's annotations remain if kubectl applied the CRDs.
    assert [line for line in accepted.stderr.splitlines() if "last-applied-configuration" not in line] == []
    done(helm(plane, "upgrade", RELEASE, chart, place[0], f"--values={values}"))
    eventually(lambda: is_there(plane, MANAGER, 2))
    pod = plane.api.get(f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{MANAGER}")["spec"]["template"]
    assert pod["metadata"]["labels"]["cost"] == "b"
    assert [each["topologyKey"] for each in pod["spec"]["topologySpreadConstraints"]] == ["zone"]
    budget = plane.api.get(f"/apis/policy/v1/namespaces/{SYSTEM}/poddisruptionbudgets/{MANAGER}")
    assert budget["spec"]["maxUnavailable"] == "50%"

    without = ("--set=petstore.enable=false", "--reset-values")
    said = done(helm(plane, "upgrade", RELEASE, chart, place[0], *without))
    assert f"There is no petstore at {PETSTORE}:6742" in said

    done(helm(plane, "uninstall", RELEASE, place[0]))
    definitions = plane.api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    assert "memcacheds.cache.example.com" in {each["metadata"]["name"] for each in definitions}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("NAMESPACES=default,team-a,team-b",),
            "first create namespace team-a, team-b",
        ),
        (("OVERLAY=cert-manager",), "the cluster does not serve cert-manager.io/v1"),
    ],
    ids=["a namespace", "a kind"],
)
def test_make_deploy_applies_no_object_when_a_namespace_or_kind_is_missing(
    arguments: tuple[str, ...], said: str, untouched: ControlPlane
):
    refused = make(untouched, "deploy", *arguments)
    assert refused.returncode == 2
    assert f"nothing was applied: {said}" in refused.stderr.splitlines()[0]
    assert SYSTEM not in {
        each["metadata"]["name"] for each in untouched.api.get("/api/v1/namespaces")["items"]
    }
