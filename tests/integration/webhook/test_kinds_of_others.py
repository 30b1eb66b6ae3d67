"""Webhooks for Pods and Deployments: the API server calls them only for matching requests."""

from __future__ import annotations

import contextlib
import functools
import json
import secrets
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from manager_tools.codegen import custom_resource_definitions
from tests.conftest import StartControlPlane
from tests.integration.webhook.guard_operator import Guard
from tests.support import ROOT
from tests.support.api_access import MERGE_PATCH, ApiAccess, ApiFailure
from tests.support.control_plane import ControlPlane
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.kubeconfig import Credentials
from tests.support.webhook_manager import webhook_manager

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def guarded(
    module_control_plane: StartControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    plane = module_control_plane(parts=BARE)
    plane.api.apply(custom_resource_definitions([Guard]))
    with webhook_manager(
        plane,
        tmp_path_factory.mktemp("guard"),
        asked=lambda plane: eventually(functools.partial(is_asked, plane)),
        program=(sys.executable, "-m", "tests.integration.webhook.guard_operator"),
        environ={"PYTHONPATH": str(ROOT)},
    ):
        yield plane


def is_asked(plane: ControlPlane) -> None:
    """Assert that the API server calls the webhooks of both configurations."""
    pods = f"{namespace(plane, guarded='yes')}/pods"
    stored = plane.api.request("POST", pods, query={"dryRun": "All"}, body=pod("asked", team="x"))
    assert "made-by" in stored
    assert "Required value" in refusal(plane, f"{pods}?dryRun=All", pod("refused"))


def namespace(plane: ControlPlane, **labels: str) -> str:
    """Create a namespace that accepts pods; return its path."""
    name = f"test-{secrets.token_hex(4)}"
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    plane.api.create(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
    return f"/api/v1/namespaces/{name}"


def pod(name: str, **labels: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "web", "image": "nginx"}], "automountServiceAccountToken": False}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def refusal(plane: ControlPlane, path: str, body: dict[str, Any] | None = None, method: str = "POST") -> str:
    """Return the server's message for a request that it refuses."""
    with pytest.raises(ApiFailure) as caught:
        plane.api.request(
            method, path, body=body, content_type=MERGE_PATCH if method == "PATCH" else "application/json"
        )
    return str(json.loads(caught.value.body)["message"])


@pytest.fixture
def here(guarded: ControlPlane) -> str:
    """Create a namespace whose objects the webhooks select; return its path."""
    return namespace(guarded, guarded="yes")


def test_webhooks_mutate_validate_and_warn_about_foreign_pods(guarded: ControlPlane, here: str):
    assert refusal(guarded, f"{here}/pods", pod("nobodys")).endswith(
        'Pod "nobodys" is invalid: metadata.labels[team]: Required value'
    )
    stored = guarded.api.create(f"{here}/pods", pod("ours", team="blue"))
    assert "made-by" in stored["metadata"]["annotations"]
    guarded.api.request("DELETE", f"{here}/pods/ours")
    assert guarded.api.warnings == ['299 - "ours was blue\'s"']


def test_webhook_is_called_only_for_objects_that_match_its_selectors(guarded: ControlPlane, here: str):
    elsewhere = namespace(guarded)
    assert "annotations" not in guarded.api.create(f"{elsewhere}/pods", pod("a"))["metadata"]
    assert "annotations" not in guarded.api.create(f"{here}/pods", pod("a", free="yes"))["metadata"]
    robot = Credentials.read(guarded.user_kubeconfig("robot-1", "system:masters"))
    with contextlib.closing(ApiAccess(robot, scratch=guarded.folder)) as api:
        assert "annotations" not in api.create(f"{here}/pods", pod("b"))["metadata"]
    # The webhook also sees an update after which its selector no longer matches the object.
    guarded.api.create(f"{here}/pods", pod("c", team="blue"))
    assert "annotations" in guarded.api.get(f"{here}/pods/c")["metadata"]


def test_webhooks_skip_system_namespaces_whatever_their_labels(guarded: ControlPlane):
    for name in ("kube-system", "of-the-program"):
        labels = {"guarded": "yes"} | ({"app.kubernetes.io/name": "guard"} if name != "kube-system" else {})
        found = guarded.api.find(f"/api/v1/namespaces/{name}")
        if found is None:
            guarded.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        guarded.api.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})
        path = f"/api/v1/namespaces/{name}"
        if guarded.api.find(f"{path}/serviceaccounts/default") is None:
            guarded.api.create(f"{path}/serviceaccounts", {"metadata": {"name": "default"}})
        assert "annotations" not in guarded.api.create(f"{path}/pods", pod("free"))["metadata"]


def test_webhook_validates_subresources_as_their_own_kinds(guarded: ControlPlane, here: str):
    guarded.api.create(f"{here}/pods", pod("ours", team="blue"))
    for method in ("GET", "POST"):
        assert "no shell in ours" in refusal(guarded, f"{here}/pods/ours/exec?command=sh", method=method)
        assert "no shell" not in refusal(guarded, f"{here}/pods/ours/exec?command=ls", method=method)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "ours"}}
    assert "Eviction of ours: not now" in refusal(guarded, f"{here}/pods/ours/eviction", eviction)
    state = {"status": {"phase": "Failed"}}
    assert "status.phase: Forbidden: is not to fail" in refusal(
        guarded, f"{here}/pods/ours/status", state, "PATCH"
    )
    guarded.api.patch(f"{here}/pods/ours/status", {"status": {"phase": "Running"}})


def test_webhook_validates_scale_subresource_without_its_object(guarded: ControlPlane, here: str):
    deployments = here.replace("/api/v1", "/apis/apps/v1") + "/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
    spec = {"replicas": 9, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    guarded.api.create(deployments, {"metadata": {"name": "d"}, "spec": spec})
    guarded.api.patch(f"{deployments}/d", {"spec": {"replicas": 8}})
    scale = f"{deployments}/d/scale"
    guarded.api.patch(scale, {"spec": {"replicas": 2}})
    said = refusal(guarded, scale, {"spec": {"replicas": 4}}, "PATCH")
    assert 'Scale.autoscaling "d" is invalid: spec.replicas: Forbidden: 2 are enough' in said
