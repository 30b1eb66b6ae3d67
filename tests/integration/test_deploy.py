"""`make install deploy`, the manager with the settings of its Deployment, and `make undeploy uninstall`."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import RunManager, StartControlPlane
from tests.integration.test_chart import make as try_make
from tests.support import ROOT
from tests.support.api_access import ApiAccess, ApiFailure
from tests.support.certificates import trusting
from tests.support.control_plane import ControlPlane, Feature
from tests.support.crds import DEFINITIONS, wait_served
from tests.support.eventually import eventually
from tests.support.manager_process import ManagerProcess
from tests.support.manifests import MANAGER, PETSTORE, SYSTEM, container_of, flags_of, manifests, pod_of, the
from tests.support.metrics import Samples, get
from tests.support.pets import pet, pet_path
from tests.support.petstore_process import PetStoreProcess
from tests.support.ports import PortBlock
from tests.support.webhook_service import client_configs, lead_to_this_machine

SAMPLES = "samples"
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
CONFIGURATIONS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{sort}webhookconfigurations"
    for sort in ("mutating", "validating")
)
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
# Flags with addresses for a pod; in these tests each manager has its own ports.
ADDRESSES = tuple(f"--{each}-bind-address" for each in ("metrics", "health-probe", "webhook", "console"))
WEBHOOKS = "operator-manager-webhook-service"


@pytest.fixture(scope="module")
def plane(module_control_plane: StartControlPlane) -> ControlPlane:
    return module_control_plane().require(Feature.WORKLOADS, Feature.READY_PODS)


@pytest.fixture
def volume(plane: ControlPlane) -> None:
    """Create a volume for the pet store's volume claim, if the cluster has no provisioner."""
    if not plane.api.get("/apis/storage.k8s.io/v1/storageclasses")["items"]:
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/nowhere"},
        }
        metadata = {"name": f"volume-{secrets.token_hex(4)}"}
        plane.api.create("/api/v1/persistentvolumes", {"metadata": metadata, "spec": spec})


def make(plane: ControlPlane, *arguments: str) -> None:
    """Run make for the control plane; assert that it succeeds without a warning."""
    done = try_make(plane, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stdout + done.stderr


def prometheus(plane: ControlPlane) -> str:
    """Return the token of a new account that may read the metrics, as docs/deploy.md describes."""
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


def is_trusted_everywhere(plane: ControlPlane) -> None:
    """Assert that every webhook client configuration has the CA of the served certificate."""
    configs = client_configs(plane)
    assert len(configs) > 2
    assert all(each["service"]["name"] == WEBHOOKS and each.get("caBundle") for each in configs)
    assert len({each["caBundle"] for each in configs}) == 1


def answers_webhooks(plane: ControlPlane, namespace: str) -> None:
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


def samples_have_a_status(plane: ControlPlane, namespace: str) -> None:
    """Assert that every sample object has a status, except objects of the core group."""
    for sample in manifests("samples"):
        if sample["apiVersion"] == "v1":
            continue
        metadata = {**sample["metadata"], "namespace": namespace}
        path = plane.api.path_of({**sample, "metadata": metadata})
        assert plane.api.get(path).get("status"), path


def is_rolled_out(plane: ControlPlane, name: str) -> None:
    path = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{name}"
    status = plane.api.get(path)["status"]
    assert status.get("readyReplicas") == 1, status


def leftovers(plane: ControlPlane) -> list[str]:
    """Return the cluster-scoped objects of the product that still exist."""
    ours = {each["metadata"]["name"] for each in manifests() if "namespace" not in each["metadata"]}
    there = [
        each["metadata"]["name"]
        for path in (DEFINITIONS, CLUSTER_ROLES, BINDINGS, *CONFIGURATIONS, "/api/v1/namespaces")
        for each in plane.api.get(path)["items"]
    ]
    return [name for name in there if name in ours or name.startswith("operator-manager")]


class Deployed(NamedTuple):
    """A manager with the settings of its Deployment, and API access with its account."""

    manager: ManagerProcess
    account: ApiAccess

    def is_forbidden(self, method: str, path: str, body: Any = None) -> None:
        with pytest.raises(ApiFailure) as refused:
            self.account.request(method, path, body=body)
        assert refused.value.status == 403, path


@pytest.fixture
def run_as_deployed(
    plane: ControlPlane, run_manager: RunManager, tmp_path: Path
) -> Iterator[Callable[[str], Deployed]]:
    """Yield a function that starts the manager as a local process and waits until the samples are reconciled.

    The manager has the Deployment's flags, environment and account, but addresses of this machine. A flag
    makes it store the webhooks' certificate in a Secret, as it does by default in a pod.
    """
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(PetStoreProcess(tmp_path / "petstore", "--memory"))
        ports = stack.enter_context(PortBlock(1))

        def run(namespace: str) -> Deployed:
            path = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{MANAGER}"
            deployment = plane.api.get(path)
            # No program runs in the pods, so their Service leads to this test's process.
            plane.api.patch(path, {"spec": {"replicas": 0}})
            lead_to_this_machine(plane, SYSTEM, WEBHOOKS, ports[0])
            credentials = plane.credentials_of(SYSTEM, pod_of(deployment)["serviceAccountName"])
            access = ApiAccess(credentials, scratch=tmp_path / "scratch")
            stack.callback(access.close)
            kubeconfig = credentials.write(tmp_path / "account.kubeconfig", namespace=SYSTEM)
            flags = [flag for flag in flags_of(deployment) if not flag.startswith(ADDRESSES)]
            environ = {each["name"]: each["value"] for each in container_of(deployment)["env"]}
            environ["PETSTORE_ADDRESS"] = store.address
            webhooks = (f"--webhook-bind-address=:{ports[0]}", "--webhook-certificates=secret")
            manager = run_manager(kubeconfig, *flags, *webhooks, environ=environ).wait_ready()
            wait_served(plane)
            eventually(lambda: is_trusted_everywhere(plane))
            plane.kubectl(f"--namespace={namespace}", "apply", "--kustomize", ROOT / "config" / "samples")
            eventually(lambda: samples_have_a_status(plane, namespace))
            answers_webhooks(plane, namespace)
            return Deployed(manager, access)

        yield run


@pytest.mark.contract
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("volume")
def test_make_deploy_reconciles_all_samples_and_undeploy_removes_every_object(
    plane: ControlPlane, run_as_deployed: Callable[[str], Deployed]
):
    make(plane, "install", "deploy")
    # The pods are admitted: the namespace enforces the restricted level where the control plane knows levels.
    eventually(lambda: is_rolled_out(plane, MANAGER))
    eventually(lambda: is_rolled_out(plane, PETSTORE))
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": SAMPLES}})
    deployed = run_as_deployed(SAMPLES)
    lease = plane.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/operator-manager")
    assert lease["spec"]["holderIdentity"]

    metrics, reader = deployed.manager.metrics_address, prometheus(plane)
    eventually(lambda: scrape(metrics, reader)[0] == 200)
    assert Samples(scrape(metrics, reader)[1]).value("rest_client_requests_total", code="403") == 0
    account = pod_of(the("Deployment", MANAGER))["serviceAccountName"]
    assert scrape(metrics, plane.token_of(SYSTEM, account))[0] == 403
    assert scrape(metrics, "nobody")[0] == 401
    deployed.is_forbidden("GET", "/api/v1/nodes")
    deployed.is_forbidden("GET", f"/api/v1/namespaces/{SYSTEM}/serviceaccounts")
    deployed.is_forbidden("DELETE", f"/api/v1/namespaces/{SAMPLES}")
    deployed.is_forbidden("DELETE", f"{CLUSTER_ROLES}/cluster-admin")
    pod = {"metadata": {"name": "own"}, "spec": {}}
    deployed.is_forbidden("POST", f"/api/v1/namespaces/{SAMPLES}/pods", pod)

    # The manager still runs, so that it removes the finalizers of deleted objects.
    plane.kubectl("delete", "clusterrolebinding", "operator-manager-prometheus")
    make(plane, "undeploy", "uninstall")
    deployed.manager.stop()
    eventually(lambda: leftovers(plane) == [])


@pytest.mark.whole
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("volume")
def test_namespaced_manager_has_rights_only_in_its_namespaces(
    plane: ControlPlane, run_as_deployed: Callable[[str], Deployed]
):
    for name in ("team-a", "team-b", "others"):
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    # Two equivalent ways, tested in sequence: an edited overlay, and names passed to make.
    make(plane, "deploy", "OVERLAY=namespaced")
    deployed = run_as_deployed("team-a")
    deployed.is_forbidden("GET", "/api/v1/pods")
    deployed.is_forbidden("GET", "/api/v1/namespaces/others/pods")
    assert deployed.manager.logs(level="error") == []
    # In the order of kubebuilder's documentation.
    make(plane, "uninstall")
    make(plane, "undeploy", "NAMESPACES=team-a,team-b")
    deployed.manager.stop()
    eventually(lambda: leftovers(plane) == [])
