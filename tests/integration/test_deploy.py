"""`make install deploy`, the manager as its Deployment runs it, and `make undeploy uninstall`."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunManager, StartControlPlane
from tests.support import ROOT, makefile
from tests.support.api_access import ApiAccess, ApiFailure
from tests.support.certificates import trusting
from tests.support.control_plane import KUBECTL, ControlPlane, Feature
from tests.support.crds import wait_served
from tests.support.eventually import eventually
from tests.support.kubeconfig import Credentials
from tests.support.manager_process import ManagerProcess
from tests.support.manifests import MANAGER, PETSTORE, SYSTEM, container_of, flags_of, manifests, pod_of, the
from tests.support.metrics import Samples, get
from tests.support.pets import pet, pet_path
from tests.support.petstore_process import PetStoreProcess
from tests.support.ports import PortBlock
from tests.support.webhook_service import client_configs, lead_to_this_machine

SAMPLES = "samples"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
CONFIGURATIONS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{sort}webhookconfigurations"
    for sort in ("mutating", "validating")
)
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
# Where they listen is for the pod; here every manager has ports of its own.
ADDRESSES = tuple(f"--{each}-bind-address" for each in ("metrics", "health-probe", "webhook", "console"))
WEBHOOKS = "operator-manager-webhook-service"


@pytest.fixture(scope="module")
def plane(module_control_plane: StartControlPlane) -> ControlPlane:
    return module_control_plane().require(Feature.WORKLOADS, Feature.READY_PODS)


@pytest.fixture
def volume(plane: ControlPlane) -> None:
    """Create a volume for the store's claim if the cluster has no provisioner; volumes are not reused."""
    if not plane.api.get("/apis/storage.k8s.io/v1/storageclasses")["items"]:
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/nowhere"},
        }
        metadata = {"name": f"volume-{secrets.token_hex(4)}"}
        plane.api.create("/api/v1/persistentvolumes", {"metadata": metadata, "spec": spec})


def make(plane: ControlPlane, *arguments: str) -> str:
    """Run make on the control plane; a failure shows the output of make."""
    done = makefile.make(
        "--silent",
        *arguments,
        f"KUBECTL={plane.kubectl_program()}",
        environ={"KUBECONFIG": str(plane.kubeconfig), **KUBECTL},
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stdout + done.stderr
    return done.stdout


def manager_account() -> str:
    """Return the service account of the manager's pods."""
    return str(pod_of(the("Deployment", MANAGER))["serviceAccountName"])


def account_kubeconfig(plane: ControlPlane, folder: Path) -> Path:
    credentials = plane.credentials_of(SYSTEM, manager_account())
    return credentials.write(folder / "account.kubeconfig", namespace=SYSTEM)


def prometheus(plane: ControlPlane) -> str:
    """Return the token of an account that may read the metrics, made as docs/deploy.md says."""
    plane.kubectl(f"--namespace={SYSTEM}", "create", "serviceaccount", "prometheus")
    plane.kubectl(
        "create",
        "clusterrolebinding",
        "operator-manager-prometheus",
        "--clusterrole=operator-manager-metrics-reader",
        f"--serviceaccount={SYSTEM}:prometheus",
    )
    return plane.token_of(SYSTEM, "prometheus")


def scrape(address: str, token: str) -> tuple[int, str]:
    """Return the status and body of /metrics."""
    return get(f"https://{address}/metrics", token=token, context=trusting(None))


@pytest.fixture
def webhook_port() -> Iterator[int]:
    """Return the port on which the manager serves its webhooks to the API server."""
    with PortBlock(1) as ports:
        yield ports[0]


def take_the_place_of_the_pods(plane: ControlPlane, webhook_port: int) -> None:
    """Route the pods' Service to the test's process, because no program runs in the pods."""
    path = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{MANAGER}"
    plane.api.patch(path, {"spec": {"replicas": 0}})
    lead_to_this_machine(plane, SYSTEM, WEBHOOKS, webhook_port)


def is_trusted_everywhere(plane: ControlPlane) -> None:
    """Assert that the API server trusts the webhooks' authority in every client configuration."""
    configs = client_configs(plane)
    assert len(configs) > 2
    assert all(each["service"]["name"] == WEBHOOKS and each.get("caBundle") for each in configs)
    assert len({each["caBundle"] for each in configs}) == 1


def answers_webhooks(plane: ControlPlane, namespace: str = SAMPLES) -> None:
    """Assert that the manager's webhooks refuse, change and convert objects."""
    body = pet("rex", name=" Rex ", species="Dog", birthday="2999-01-01")
    pets = pet_path(namespace)
    with pytest.raises(ApiFailure, match=r"spec\.birthday") as refused:
        plane.api.request("POST", pets, query={"dryRun": "All"}, body=body)
    assert refused.value.status == 422
    body["spec"]["birthday"] = "2020-01-01"
    stored = json.loads(plane.api.request("POST", pets, query={"dryRun": "All"}, body=body))["spec"]
    assert (stored["name"], stored["species"]) == ("Rex", "dog")
    old = plane.api.get(f"{pets.replace('v1beta1', 'v1alpha1')}/pet-sample1")["spec"]
    assert (old["type"], old["birthday"]) == ("dog", "2021-04-01T00:00:00Z")


@pytest.fixture
def petstore(tmp_path: Path) -> Iterator[PetStoreProcess]:
    with PetStoreProcess(tmp_path / "petstore", "--memory") as store:
        yield store


def samples() -> list[dict[str, Any]]:
    """Return the samples of our kinds; the core group's Secret has no status."""
    return [each for each in manifests("samples") if each["apiVersion"] != "v1"]


def are_taken_up(plane: ControlPlane, namespace: str = SAMPLES) -> None:
    """Assert that every sample object has a status."""
    for sample in samples():
        metadata = {**sample["metadata"], "namespace": namespace}
        path = plane.api.path_of({**sample, "metadata": metadata})
        assert plane.api.get(path).get("status"), path


def is_rolled_out(plane: ControlPlane, name: str) -> None:
    path = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{name}"
    status = plane.api.get(path)["status"]
    assert status.get("readyReplicas") == 1, status


def is_refused_what_is_not_its_own(plane: ControlPlane, kubeconfig: Path, scratch: Path) -> None:
    access = ApiAccess(Credentials.read(kubeconfig), scratch=scratch)
    try:
        for method, path, body in (
            ("GET", "/api/v1/nodes", None),
            ("GET", f"/api/v1/namespaces/{SYSTEM}/serviceaccounts", None),
            ("DELETE", f"/api/v1/namespaces/{SAMPLES}", None),
            ("DELETE", f"{CLUSTER_ROLES}/cluster-admin", None),
            ("POST", f"/api/v1/namespaces/{SAMPLES}/pods", {"metadata": {"name": "own"}, "spec": {}}),
        ):
            with pytest.raises(ApiFailure) as refused:
                access.request(method, path, body=body)
            assert refused.value.status == 403, path
    finally:
        access.close()


def leftovers(plane: ControlPlane) -> list[str]:
    """Return our cluster-scoped objects that still exist."""
    ours = {each["metadata"]["name"] for each in manifests() if "namespace" not in each["metadata"]}
    there = [
        each["metadata"]["name"]
        for path in (DEFINITIONS, CLUSTER_ROLES, BINDINGS, *CONFIGURATIONS, "/api/v1/namespaces")
        for each in plane.api.get(path)["items"]
    ]
    return [name for name in there if name in ours or name.startswith("operator-manager")]


@pytest.mark.contract
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("volume")
def test_make_deploy_reconciles_all_samples_and_undeploy_removes_every_object(
    plane: ControlPlane,
    run_manager: RunManager,
    petstore: PetStoreProcess,
    webhook_port: int,
    tmp_path: Path,
):
    make(plane, "install", "deploy")
    # Its pods are admitted: the namespace enforces the restricted level where the control plane knows levels.
    eventually(lambda: is_rolled_out(plane, MANAGER))
    eventually(lambda: is_rolled_out(plane, PETSTORE))

    kubeconfig = account_kubeconfig(plane, tmp_path)
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": SAMPLES}})
    take_the_place_of_the_pods(plane, webhook_port)
    manager = as_deployed(run_manager, kubeconfig, petstore, webhook_port)
    wait_served(plane)
    eventually(lambda: is_trusted_everywhere(plane))
    plane.kubectl(f"--namespace={SAMPLES}", "apply", "--kustomize", ROOT / "config" / "samples")
    eventually(lambda: are_taken_up(plane))
    answers_webhooks(plane)
    lease = plane.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/operator-manager")
    assert lease["spec"]["holderIdentity"]

    metrics, reader = manager.metrics_address, prometheus(plane)
    eventually(lambda: scrape(metrics, reader)[0] == 200)
    assert Samples(scrape(metrics, reader)[1]).value("rest_client_requests_total", code="403") == 0
    assert scrape(metrics, plane.token_of(SYSTEM, manager_account()))[0] == 403
    assert scrape(metrics, "nobody")[0] == 401
    is_refused_what_is_not_its_own(plane, kubeconfig, tmp_path / "scratch")

    # The manager is still there, so that objects with finalizers can go.
    plane.kubectl("delete", "clusterrolebinding", "operator-manager-prometheus")
    make(plane, "undeploy", "uninstall")
    manager.stop()
    eventually(lambda: leftovers(plane) == [])


def as_deployed(
    run_manager: RunManager,
    kubeconfig: Path,
    petstore: PetStoreProcess,
    webhook_port: int,
    deployment: dict[str, Any] | None = None,
) -> ManagerProcess:
    """Start a manager with the Deployment's flags and environment, but with addresses of this machine.

    A flag makes it store the webhooks' certificate in a Secret, as it does by itself only in a pod.
    """
    deployment = deployment or the("Deployment", MANAGER)
    flags = [flag for flag in flags_of(deployment) if not flag.startswith(ADDRESSES)]
    environ = {each["name"]: each["value"] for each in container_of(deployment)["env"]}
    environ["PETSTORE_ADDRESS"] = petstore.address
    webhooks = (f"--webhook-bind-address=:{webhook_port}", "--webhook-certificates=secret")
    return run_manager(kubeconfig, *flags, *webhooks, environ=environ).wait_ready()


@pytest.mark.whole
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("volume")
def test_namespaced_manager_has_rights_only_in_its_namespaces(
    plane: ControlPlane,
    run_manager: RunManager,
    petstore: PetStoreProcess,
    webhook_port: int,
    tmp_path: Path,
):
    for name in ("team-a", "team-b", "others"):
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    # Two equivalent ways, tested in sequence: an edited overlay, and names passed to make.
    make(plane, "deploy", "OVERLAY=namespaced")
    deployment = plane.api.get(f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{MANAGER}")
    kubeconfig = account_kubeconfig(plane, tmp_path)
    take_the_place_of_the_pods(plane, webhook_port)
    manager = as_deployed(run_manager, kubeconfig, petstore, webhook_port, deployment)
    eventually(lambda: is_trusted_everywhere(plane))
    for name in ("team-a", "others"):
        plane.kubectl(f"--namespace={name}", "apply", "--kustomize", ROOT / "config" / "samples")
    eventually(lambda: are_taken_up(plane, "team-a"))
    answers_webhooks(plane, "team-a")

    access = ApiAccess(Credentials.read(kubeconfig), scratch=tmp_path / "scratch")
    try:
        for path in ("/api/v1/pods", "/api/v1/namespaces/others/pods"):
            with pytest.raises(ApiFailure) as refused:
                access.get(path)
            assert refused.value.status == 403
    finally:
        access.close()
    assert not [line for line in manager.logs() if line.get("level") == "error"]
    plane.kubectl("--namespace=others", "delete", "--kustomize", ROOT / "config" / "samples")
    # In the order of kubebuilder's documentation.
    make(plane, "uninstall")
    make(plane, "undeploy", "NAMESPACES=team-a,team-b")
    manager.stop()
    eventually(lambda: leftovers(plane) == [])
