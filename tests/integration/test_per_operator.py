"""The overlay with a Deployment and a service account for each operator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controllers.main import OPERATORS
from tests.conftest import RunManager, StartControlPlane
from tests.integration.test_deploy import ADDRESSES, samples_have_a_status
from tests.support import ROOT
from tests.support.api_access import ApiAccess, ApiFailure
from tests.support.api_objects import object_path, storage_classes
from tests.support.control_plane import ControlPlane, Feature
from tests.support.crds import wait_served
from tests.support.eventually import eventually
from tests.support.kubeconfig import Credentials
from tests.support.manifests import MANAGER, SYSTEM, container_of, flags_of, manifests, pod_of, the
from tests.support.petstore_process import PetStoreProcess
from tests.support.ports import PortBlock
from tests.support.webhook_service import lead_to_this_machine

OVERLAY = "per-operator"
SAMPLES = ROOT / "config" / "samples"
NAMES = [operator.name for operator in OPERATORS]


@pytest.fixture(scope="module")
def plane(module_control_plane: StartControlPlane) -> Iterator[ControlPlane]:
    """Install the overlay with one manager per operator, except Deployments and volume claims."""
    plane = module_control_plane().require(Feature.WORKLOADS, Feature.READY_PODS)
    left_out = {"Deployment", "PersistentVolumeClaim"}
    plane.api.apply(each for each in manifests(OVERLAY) if each["kind"] not in left_out)
    wait_served(plane)
    with storage_classes(plane):
        yield plane


def account(plane: ControlPlane, name: str) -> Credentials:
    """Return credentials with a token of the service account of an operator's pods."""
    deployed = pod_of(the("Deployment", f"{MANAGER}-{name}", OVERLAY))["serviceAccountName"]
    return plane.credentials_of(SYSTEM, deployed)


@pytest.mark.contract
@pytest.mark.long
def test_per_operator_managers_reconcile_all_samples_with_their_own_accounts(
    plane: ControlPlane, run_manager: RunManager, tmp_path: Path
):
    managers = {}
    with PetStoreProcess(tmp_path / "petstore", "--memory") as store, PortBlock(1) as ports:
        lead_to_this_machine(plane, SYSTEM, "operator-manager-webhook-service", ports[0])
        for name in NAMES:
            deployment = the("Deployment", f"{MANAGER}-{name}", OVERLAY)
            kubeconfig = account(plane, name).write(tmp_path / f"{name}.kubeconfig", namespace=SYSTEM)
            flags = [flag for flag in flags_of(deployment) if not flag.startswith(ADDRESSES)]
            serves = "--webhook-bind-address=:9443" in flags_of(deployment)
            flags += (
                [f"--webhook-bind-address=:{ports[0]}", "--webhook-certificates=secret"]
                if serves
                else ["--webhook-bind-address=0"]
            )
            environ = {each["name"]: each["value"] for each in container_of(deployment).get("env", ())}
            if "PETSTORE_ADDRESS" in environ:
                environ["PETSTORE_ADDRESS"] = store.address
            flags.append("--metrics-secure=false")
            managers[name] = run_manager(kubeconfig, *flags, environ=environ).wait_ready()

        plane.api.create("/api/v1/namespaces", {"metadata": {"name": "samples"}})
        eventually(lambda: plane.kubectl("--namespace=samples", "apply", "--kustomize", SAMPLES))
        eventually(lambda: samples_have_a_status(plane, "samples"))
        leases = plane.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases")["items"]
        assert {each["metadata"]["name"] for each in leases} == {f"operator-manager-{name}" for name in NAMES}
        for name, manager in managers.items():
            assert manager.metrics().value("rest_client_requests_total", code="403") == 0, name
        plane.kubectl("--namespace=samples", "delete", "pets", "--all")
        for manager in managers.values():
            assert manager.stop() == 0


def is_allowed(access: ApiAccess, method: str, path: str, body: Any = None) -> bool:
    """Return whether the server answers the request with a status other than 403."""
    try:
        access.request(method, path, query={"dryRun": "All"} if body else None, body=body)
    except ApiFailure as failure:
        return failure.status != 403
    return True


@pytest.mark.parametrize("name", NAMES)
def test_operator_token_cannot_access_objects_or_leases_of_another_operator(
    plane: ControlPlane, tmp_path: Path, name: str
):
    registration, extensions = "/apis/admissionregistration.k8s.io/v1", "/apis/apiextensions.k8s.io/v1"
    for_the_keeper = [
        f"{registration}/{sort}webhookconfigurations/operator-manager-{sort}-webhook-configuration"
        for sort in ("mutating", "validating")
    ]
    for_the_keeper.append(f"{extensions}/customresourcedefinitions/pets.petstore.example.com")
    leases = {
        other: object_path("coordination.k8s.io/v1", SYSTEM, "leases", f"operator-manager-{other}")
        for other in NAMES
    }
    access = ApiAccess(account(plane, name), scratch=tmp_path)
    try:
        for allowed, method, path in (
            ({"wordpress"}, "GET", "/api/v1/secrets"),
            ({"wordpress"}, "GET", "/apis/example.com/v1/wordpresses"),
            ({"memcached"}, "GET", "/apis/cache.example.com/v1/memcacheds"),
            ({"mysrv"}, "GET", "/apis/myapp.idcos.com/v1alpha1/mysrvs"),
            ({"foo"}, "GET", "/apis/tutorial.my.domain/v1/foos"),
            ({"memcached", "wordpress"}, "POST", object_path("apps/v1", "default", "deployments")),
            ({"wordpress"}, "POST", object_path("v1", "default", "secrets")),
            ({"wordpress"}, "POST", object_path("v1", "default", "services")),
            ({"wordpress"}, "POST", object_path("v1", "default", "persistentvolumeclaims")),
            ({"pet"}, "PATCH", object_path("petstore.example.com/v1beta1", "default", "pets", "theirs")),
            ({"foo"}, "PUT", object_path("v1", SYSTEM, "secrets", "operator-manager-webhook-server-cert")),
            *(({"foo"}, "PATCH", each) for each in for_the_keeper),
            *(({other}, "PUT", lease) for other, lease in leases.items()),
        ):
            # The object is invalid, so that only the authorizer answers 403.
            body = None if method == "GET" else {"metadata": {"name": "-"}}
            assert is_allowed(access, method, path, body) is (name in allowed), path
    finally:
        access.close()
