"""Webhooks of a custom kind, Pods and Deployments, from the API server's call to the user's message.

The manager reads its certificates from files.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import secrets
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from manager.util.program import Program
from manager.webhook.configurations import by_url, webhook_configurations
from manager.webhook.methods import registrations
from manager.webhook.registration import Webhooks
from manager_tools.codegen import custom_resource_definitions
from tests.conftest import StartControlPlane
from tests.integration.webhook.judged_operator import Judged, JudgedOperator
from tests.support import ROOT
from tests.support.api_access import MERGE_PATCH, ApiAccess, ApiFailure
from tests.support.api_objects import manifest
from tests.support.certificates import Authority
from tests.support.control_plane import ControlPlane
from tests.support.crds import wait_served
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.kubeconfig import Credentials
from tests.support.manager_process import ManagerProcess
from tests.support.ports import PortBlock

pytestmark = pytest.mark.oldest

PROGRAM = Program("operator-manager", "1")
OBJECTS = "/apis/test.example.com/v1/namespaces/default/judgeds"
VALIDATING = (
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/"
    "test-validating-webhook-configuration"
)


class Served(NamedTuple):
    """A manager with webhooks, and an API server that calls them."""

    plane: ControlPlane
    manager: ManagerProcess

    def judged(self, name: str, ask: str = "", **query: str) -> Any:
        """Create a Judged object with `spec.ask`; return it as stored."""
        answer = self.plane.api.request("POST", OBJECTS, query=query, body=judged(name, ask))
        return json.loads(answer)


def judged(name: str, ask: str = "") -> dict[str, Any]:
    return manifest("test.example.com/v1", "Judged", name, ask=ask)


@pytest.fixture(scope="module")
def served(
    module_control_plane: StartControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    plane = module_control_plane(parts=BARE)
    folder, authority = tmp_path_factory.mktemp("webhooks"), Authority("webhooks")
    for name, content in zip(("tls.crt", "tls.key"), authority.server("127.0.0.1"), strict=True):
        (folder / name).write_bytes(content)
    with (
        PortBlock(1) as ports,
        ManagerProcess(
            plane.kubeconfig,
            f"--webhook-bind-address=127.0.0.1:{ports[0]}",
            f"--webhook-cert-path={folder}",
            "--log-level=debug",
            folder=folder / "manager",
            program=(sys.executable, "-m", "tests.integration.webhook.judged_operator"),
            environ={"PYTHONPATH": str(ROOT)},
        ) as manager,
    ):
        manager.wait_ready()
        bundle = base64.b64encode(authority.pem).decode()
        client = by_url(f"https://127.0.0.1:{ports[0]}", bundle)
        webhooks = Webhooks(registrations(JudgedOperator))
        plane.api.apply(custom_resource_definitions([Judged]))
        wait_served(plane)
        plane.api.apply(webhook_configurations(webhooks, client, PROGRAM, prefix="test-"))
        made = Served(plane, manager)
        eventually(functools.partial(_is_asked, made))
        yield made


def _is_asked(served: Served) -> None:
    """Assert that the API server calls the webhooks; the calls begin some time after the registration."""
    stored = served.judged("first", dryRun="All")
    assert stored["spec"]["notes"]
    with pytest.raises(ApiFailure):
        served.judged("first", "refuse", dryRun="All")
    pods = f"{namespace(served.plane, guarded='yes')}/pods"
    query = {"dryRun": "All"}
    assert "made-by" in served.plane.api.request("POST", pods, query=query, body=pod("asked", team="x"))
    assert "Required value" in refusal(served.plane, f"{pods}?dryRun=All", pod("teamless"))


def test_defaulting_webhook_adds_a_map_key_with_slash_and_tilde_to_the_stored_object(served: Served):
    stored = served.judged("defaulted")
    [(name, text)] = stored["spec"]["notes"].items()
    assert name == "asked by/~"
    assert text.endswith(" to CREATE")


def test_webhook_refusal_has_the_format_of_an_api_server_refusal(served: Served):
    done = served.plane.kubectl(
        "create", "-f", "-", stdin=json.dumps(judged("refused", "refuse")), check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        'The Judged "refused" is invalid: spec.ask: Invalid value: "refuse": must not be asked\n'
    )
    with pytest.raises(ApiFailure) as failure:
        served.judged("refused", "refuse")
    assert failure.value.status == 422
    [line] = served.manager.logs(msg="refused a request", name="refused", level="info")[:1]
    assert (line["operation"], line["namespace"]) == ("CREATE", "default")
    assert line["user"]
    assert line["uid"]


def test_webhook_is_called_for_updates_and_deletions_and_sends_warnings(served: Served):
    done = served.plane.kubectl("create", "-f", "-", stdin=json.dumps(judged("warned", "warn")))
    assert "Warning: careful with warned" in done.stderr
    with pytest.raises(ApiFailure, match=r"spec\.ask: Forbidden: may not change"):
        served.plane.api.patch(f"{OBJECTS}/warned", {"spec": {"ask": "else"}})
    done = served.plane.kubectl("delete", "judgeds.test.example.com", "warned")
    assert "Warning: warned is gone for good" in done.stderr


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        ("fail", "the function that validates Judged failed unexpectedly (LookupError)"),
        ("dawdle", "the function that validates Judged took longer than 1.8 s, and was stopped"),
    ],
)
def test_failure_policy_decides_about_a_request_whose_webhook_function_raises_or_times_out(
    served: Served, ask: str, told: str
):
    with pytest.raises(ApiFailure) as failure:
        served.judged(f"{ask}-refused", ask)
    assert failure.value.status == 500
    assert told in str(failure.value)
    assert "failed calling webhook" in str(failure.value)
    _set_policy(served, "Ignore")
    try:
        eventually(lambda: served.judged(f"{ask}-ignored", ask, dryRun="All"))
    finally:
        _set_policy(served, "Fail")
        eventually(functools.partial(_refuses, served, ask))
    [line] = served.manager.logs(msg="cannot answer a review", name=f"{ask}-refused")[:1]
    assert line["level"] == "error"


def _set_policy(served: Served, policy: str) -> None:
    webhooks = served.plane.api.get(VALIDATING)["webhooks"]
    served.plane.api.patch(VALIDATING, {"webhooks": [{**each, "failurePolicy": policy} for each in webhooks]})


def _refuses(served: Served, ask: str) -> None:
    with pytest.raises(ApiFailure):
        served.judged(f"{ask}-refused", ask, dryRun="All")


def namespace(plane: ControlPlane, **labels: str) -> str:
    """Create a namespace that accepts pods and has these labels; return its API path."""
    name = f"test-{secrets.token_hex(4)}"
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    plane.api.create(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
    return f"/api/v1/namespaces/{name}"


def pod(name: str, **labels: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "web", "image": "nginx"}], "automountServiceAccountToken": False}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def refusal(plane: ControlPlane, path: str, body: dict[str, Any] | None = None, method: str = "POST") -> str:
    """Return the error message of a request that the server refuses."""
    with pytest.raises(ApiFailure) as caught:
        plane.api.request(
            method, path, body=body, content_type=MERGE_PATCH if method == "PATCH" else "application/json"
        )
    return str(json.loads(caught.value.body)["message"])


@pytest.fixture
def here(served: Served) -> str:
    """Create a namespace whose labels the webhooks select; return its API path."""
    return namespace(served.plane, guarded="yes")


def test_webhooks_for_pods_mutate_validate_and_warn(served: Served, here: str):
    assert refusal(served.plane, f"{here}/pods", pod("nobodys")).endswith(
        'Pod "nobodys" is invalid: metadata.labels[team]: Required value'
    )
    stored = served.plane.api.create(f"{here}/pods", pod("ours", team="blue"))
    assert "made-by" in stored["metadata"]["annotations"]
    served.plane.api.request("DELETE", f"{here}/pods/ours")
    assert served.plane.api.warnings == ['299 - "ours was blue\'s"']


def test_webhook_is_called_only_for_objects_that_match_its_selectors(served: Served, here: str):
    elsewhere = namespace(served.plane)
    assert "annotations" not in served.plane.api.create(f"{elsewhere}/pods", pod("a"))["metadata"]
    assert "annotations" not in served.plane.api.create(f"{here}/pods", pod("a", free="yes"))["metadata"]
    robot = Credentials.read(served.plane.user_kubeconfig("robot-1", "system:masters"))
    with contextlib.closing(ApiAccess(robot, scratch=served.plane.folder)) as api:
        assert "annotations" not in api.create(f"{here}/pods", pod("b"))["metadata"]
    # All selectors match this pod.
    served.plane.api.create(f"{here}/pods", pod("c", team="blue"))
    assert "annotations" in served.plane.api.get(f"{here}/pods/c")["metadata"]


def test_webhooks_skip_system_namespaces_even_when_the_labels_match(served: Served):
    for name in ("kube-system", "of-the-program"):
        labels = {"guarded": "yes"} | (
            {"app.kubernetes.io/name": PROGRAM.name} if name != "kube-system" else {}
        )
        found = served.plane.api.find(f"/api/v1/namespaces/{name}")
        if found is None:
            served.plane.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        served.plane.api.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})
        path = f"/api/v1/namespaces/{name}"
        if served.plane.api.find(f"{path}/serviceaccounts/default") is None:
            served.plane.api.create(f"{path}/serviceaccounts", {"metadata": {"name": "default"}})
        assert "annotations" not in served.plane.api.create(f"{path}/pods", pod("free"))["metadata"]


def test_webhook_is_called_for_exec_eviction_and_status_of_a_pod(served: Served, here: str):
    served.plane.api.create(f"{here}/pods", pod("ours", team="blue"))
    for method in ("GET", "POST"):
        assert "no shell in ours" in refusal(served.plane, f"{here}/pods/ours/exec?command=sh", method=method)
        assert "no shell" not in refusal(served.plane, f"{here}/pods/ours/exec?command=ls", method=method)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "ours"}}
    assert "Eviction of ours: not now" in refusal(served.plane, f"{here}/pods/ours/eviction", eviction)
    state = {"status": {"phase": "Failed"}}
    assert "status.phase: Forbidden: is not to fail" in refusal(
        served.plane, f"{here}/pods/ours/status", state, "PATCH"
    )
    served.plane.api.patch(f"{here}/pods/ours/status", {"status": {"phase": "Running"}})


def test_webhook_is_called_for_the_scale_subresource_but_not_for_the_deployment(served: Served, here: str):
    deployments = here.replace("/api/v1", "/apis/apps/v1") + "/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
    spec = {"replicas": 9, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    served.plane.api.create(deployments, {"metadata": {"name": "d"}, "spec": spec})
    served.plane.api.patch(f"{deployments}/d", {"spec": {"replicas": 8}})
    scale = f"{deployments}/d/scale"
    served.plane.api.patch(scale, {"spec": {"replicas": 2}})
    said = refusal(served.plane, scale, {"spec": {"replicas": 4}}, "PATCH")
    assert 'Scale.autoscaling "d" is invalid: spec.replicas: Forbidden: 2 are enough' in said
