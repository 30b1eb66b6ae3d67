"""Webhooks with certificates from files, from the API server's call to the user's message."""

from __future__ import annotations

import base64
import functools
import json
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
from tests.support.api_access import ApiFailure
from tests.support.certificates import Authority
from tests.support.control_plane import ControlPlane
from tests.support.crds import wait_served
from tests.support.envtest import BARE
from tests.support.eventually import eventually
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
    """A manager that serves webhooks, and an API server that calls them."""

    plane: ControlPlane
    manager: ManagerProcess

    def judged(self, name: str, ask: str = "", **query: str) -> Any:
        """Create a Judged object; return it as stored."""
        answer = self.plane.api.request("POST", OBJECTS, query=query, body=judged(name, ask))
        return json.loads(answer)


def judged(name: str, ask: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "test.example.com/v1",
        "kind": "Judged",
        "metadata": {"name": name},
        "spec": {"ask": ask},
    }


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
    """Assert that the API server calls the webhooks, which takes a moment after their registration."""
    stored = served.judged("first", dryRun="All")
    assert stored["spec"]["notes"]
    with pytest.raises(ApiFailure):
        served.judged("first", "refuse", dryRun="All")


def test_defaulting_webhook_runs_before_schema_validation(served: Served):
    stored = served.judged("defaulted")
    [(name, text)] = stored["spec"]["notes"].items()
    assert name == "asked by/~"
    assert text.endswith(" to CREATE")


def test_validating_webhook_refusal_has_the_format_of_an_api_server_refusal(served: Served):
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
    [line] = served.manager.logs(msg="refused", name="refused", level="info")[:1]
    assert (line["operation"], line["namespace"]) == ("CREATE", "default")
    assert line["user"]
    assert line["uid"]


def test_validating_webhook_reviews_updates_and_deletions_and_sends_warnings(served: Served):
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
def test_failing_webhook_function_triggers_the_failure_policy(served: Served, ask: str, told: str):
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
    [line] = served.manager.logs(msg="not answered", name=f"{ask}-refused")[:1]
    assert line["level"] == "error"


def _set_policy(served: Served, policy: str) -> None:
    [webhook] = served.plane.api.get(VALIDATING)["webhooks"]
    served.plane.api.patch(VALIDATING, {"webhooks": [{**webhook, "failurePolicy": policy}]})


def _refuses(served: Served, ask: str) -> None:
    with pytest.raises(ApiFailure):
        served.judged(f"{ask}-refused", ask, dryRun="All")
