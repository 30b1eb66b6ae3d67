"""Objects whose reconcile fails, as kubectl shows them."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.conftest import RunManager, StartControlPlane
from tests.support.api_objects import (
    condition,
    deployment_path,
    event_counts,
    manifest,
)
from tests.support.control_plane import ControlPlane, Feature
from tests.support.crds import DEFINITIONS
from tests.support.eventually import eventually
from tests.support.memcacheds import API, memcached, memcached_path

pytestmark = pytest.mark.contract

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
DEPLOYMENTS = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["deployments"],
    "scope": "Namespaced",
}


class Refusal(NamedTuple):
    """Something that keeps Deployments from being written, and how the Memcached says so."""

    objects: list[tuple[str, dict[str, Any]]]
    """Each with the path of its collection."""
    reason: str
    words: str


def deployment(name: str) -> dict[str, Any]:
    """Return a Deployment that the API server accepts."""
    labels, container = {"app": "another"}, {"name": "main", "image": "nginx"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    selector = {"matchLabels": labels}
    return manifest("apps/v1", "Deployment", name, replicas=0, selector=selector, template=template)


def refuses(plane: ControlPlane, refusal: Refusal, namespace: str, run_manager: RunManager) -> None:
    """Assert that the condition appears at once with one Event, and disappears with the refusal."""
    for path, each in refusal.objects:
        plane.api.create(path, each)
    manager = run_manager(plane.kubeconfig, f"--namespaces={namespace}", "--controllers=memcached")
    plane.kubectl("-n", namespace, "wait", "memcached/m", "--for=condition=Degraded", "--timeout=90s")
    obj = plane.api.get(memcached_path(namespace, "m"))
    degraded, available = condition(obj, "Degraded"), condition(obj, "Available")
    assert (degraded["reason"], degraded["observedGeneration"]) == (refusal.reason, 1)
    assert degraded["message"].startswith("the reconcile failed: ")
    assert refusal.words in degraded["message"]
    assert (available["status"], available["reason"]) == ("Unknown", refusal.reason)
    assert "observedGeneration" not in obj["status"]
    eventually(lambda: event_counts(plane, obj)[refusal.reason])
    eventually(lambda: manager.metrics().value("controller_runtime_reconcile_errors_total") > 3)
    again = plane.api.get(memcached_path(namespace, "m"))
    assert condition(again, "Degraded") == degraded
    assert event_counts(plane, obj) == {refusal.reason: 1}
    for path, each in refusal.objects:
        plane.api.delete(f"{path}/{each['metadata']['name']}")
    # The object itself has to change, or its back-off to end.
    plane.kubectl("-n", namespace, "annotate", "memcached/m", "seen=today")
    plane.kubectl("-n", namespace, "wait", "memcached/m", "--for=condition=Degraded=False", "--timeout=90s")
    obj = plane.api.get(memcached_path(namespace, "m"))
    assert condition(obj, "Degraded")["reason"] == "AsExpected"
    assert obj["status"]["observedGeneration"] == 1


@pytest.fixture
def owner(crds: ControlPlane, namespace: str) -> dict[str, Any]:
    """Create a Memcached; return an owner reference to it."""
    stored = crds.api.create(memcached_path(namespace), memcached("m", 0))
    names = {"name": "m", "uid": stored["metadata"]["uid"], "controller": True}
    return {"apiVersion": API, "kind": "Memcached", **names}


@pytest.mark.usefixtures("owner")
def test_webhook_that_does_not_answer_is_reported_on_the_owner(
    crds: ControlPlane, namespace: str, run_manager: RunManager
):
    webhook = {
        "name": "away.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
        "clientConfig": {"url": "https://127.0.0.1:1/nobody"},
        "rules": [DEPLOYMENTS],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": namespace},
        "webhooks": [webhook],
    }
    path = f"{REGISTRATION}/validatingwebhookconfigurations"
    refusal = Refusal([(path, configuration)], "ServerError", 'failed calling webhook "away.example.com"')
    refuses(crds, refusal, namespace, run_manager)


@pytest.mark.usefixtures("owner")
def test_refusal_by_an_admission_policy_is_reported_on_the_owner(
    crds: ControlPlane, namespace: str, run_manager: RunManager
):
    crds.require(Feature.ADMISSION_POLICIES)
    policy = manifest(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        namespace,
        failurePolicy="Fail",
        matchConstraints={"resourceRules": [DEPLOYMENTS]},
        validations=[{"expression": "false", "message": "no Deployments on a Sunday"}],
    )
    binding = manifest(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        namespace,
        policyName=namespace,
        validationActions=["Deny"],
        matchResources={
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        },
    )
    paths = [f"{REGISTRATION}/validatingadmissionpolic{end}" for end in ("ies", "ybindings")]
    for path, each in zip(paths, (policy, binding), strict=True):
        crds.api.create(path, each)

    def is_held() -> None:
        path = f"{deployment_path(namespace)}?dryRun=All"
        assert "on a Sunday" in crds.api.refusal(path, deployment("probe"))

    try:
        eventually(is_held)
        run_manager(crds.kubeconfig, f"--namespaces={namespace}", "--controllers=memcached")
        crds.kubectl("-n", namespace, "wait", "memcached/m", "--for=condition=Degraded", "--timeout=90s")
        obj = crds.api.get(memcached_path(namespace, "m"))
        assert condition(obj, "Degraded")["reason"] == "Invalid"
        assert "no Deployments on a Sunday" in condition(obj, "Degraded")["message"]
    finally:
        crds.api.delete(f"{paths[1]}/{namespace}")
        crds.api.delete(f"{paths[0]}/{namespace}")


def test_object_that_cannot_be_decoded_says_so(own_control_plane: StartControlPlane, run_manager: RunManager):
    plane = own_control_plane(crds=True)
    definition = f"{DEFINITIONS}/memcacheds.cache.example.com"
    for place in ("/required", "/properties/spec/required"):
        path = f"/spec/versions/0/schema/openAPIV3Schema{place}"
        operations = [{"op": "remove", "path": path}]
        plane.api.request("PATCH", definition, body=operations, content_type="application/json-patch+json")

    def is_taken() -> None:
        plane.api.create(
            memcached_path("default"), {"apiVersion": API, "kind": "Memcached", "metadata": {"name": "m"}}
        )

    eventually(is_taken)
    run_manager(plane.kubeconfig, "--controllers=memcached")
    plane.kubectl("wait", "memcached/m", "--for=condition=Degraded", "--timeout=90s")
    obj = plane.api.get(memcached_path("default", "m"))
    degraded = condition(obj, "Degraded")
    assert (degraded["reason"], degraded["message"]) == (
        "Undecodable",
        "the reconcile failed: Memcached default/m: spec: Field required",
    )
    eventually(lambda: event_counts(plane, obj)["Undecodable"])
    plane.api.patch(memcached_path("default", "m"), {"spec": {"size": 0}})
    plane.kubectl("wait", "memcached/m", "--for=condition=Degraded=False", "--timeout=90s")
