"""Renewal of certificates while the API server calls the webhooks, without a failed call."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator

import pytest

from manager.tls.certificate import Certificate, certificates_in
from tests.conftest import RunManager, StartControlPlane
from tests.integration.webhook.load import Load
from tests.support.control_plane import ControlPlane
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.manager_process import ManagerProcess
from tests.support.pets import pet, pet_path
from tests.support.ports import PortBlock

PROGRAM = (sys.executable, "-m", "tests.integration.webhook.short_lived")
SECRET = "/api/v1/namespaces/default/secrets/operator-manager-webhook-server-cert"
VALIDATING = (
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/"
    "operator-manager-validating-webhook-configuration"
)


@pytest.fixture
def plane(own_control_plane: StartControlPlane) -> ControlPlane:
    """Start a control plane for each test, because its API server calls our webhooks."""
    return own_control_plane(parts=BARE, crds=True)


@pytest.fixture
def ports() -> Iterator[PortBlock]:
    block = PortBlock(2)
    yield block
    block.close()


def flags(port: int, reached_at: int) -> tuple[str, ...]:
    """Return the flags of a replica that serves at one port; the API server calls `reached_at`."""
    return (
        "--controllers=memcached",
        "--webhook-certificates=secret",
        f"--webhook-bind-address=127.0.0.1:{port}",
        f"--webhook-url=https://127.0.0.1:{reached_at}",
        "--leader-elect",
        "--leader-election-namespace=default",
        "--leader-elect-lease-duration=4s",
        "--leader-elect-renew-deadline=3s",
        "--leader-elect-retry-period=500ms",
    )


def secret(plane: ControlPlane, name: str) -> tuple[Certificate, ...]:
    """Return the certificates in the Secret under this name."""
    return certificates_in(base64.b64decode(plane.api.get(SECRET)["data"][name]))


def answered(replica: ManagerProcess) -> float:
    """Return how many reviews the manager has answered."""
    return replica.metrics().value(
        "controller_runtime_webhook_requests_total",
        webhook="/validate-petstore-example-com-v1beta1-pet",
        code="200",
    )


def are_asked(plane: ControlPlane) -> None:
    """Assert that the API server reaches and trusts the webhook; otherwise a creation fails."""
    body = pet("first")
    plane.api.request("POST", pet_path("default"), query={"dryRun": "All"}, body=body)


def all_is_of_a_newer_authority(plane: ControlPlane, than: Certificate) -> None:
    """Assert that a renewal is complete: only a newer authority is trusted, and signs the certificate."""
    [authority] = secret(plane, "ca.crt")
    assert authority.since > than.since
    [serving] = secret(plane, "tls.crt")
    assert serving.vouched_for_by(authority)
    for each in plane.api.get(VALIDATING)["webhooks"]:
        assert certificates_in(base64.b64decode(each["clientConfig"]["caBundle"])) == (authority,)


@pytest.mark.whole
def test_standby_finishes_the_certificate_renewal_of_a_killed_leader(
    plane: ControlPlane, ports: PortBlock, run_manager: RunManager
):
    leader = run_manager(plane.kubeconfig, *flags(ports[0], ports[1]), program=PROGRAM).wait_ready()
    follower = run_manager(plane.kubeconfig, *flags(ports[1], ports[1]), program=PROGRAM).wait_ready()
    eventually(lambda: are_asked(plane))
    [first] = secret(plane, "ca.crt")
    with Load(plane, pet_path("default"), pet("load")) as load:
        eventually(lambda: len(secret(plane, "ca.crt")) == 2, every=0.01)
        leader.kill()
        eventually(lambda: all_is_of_a_newer_authority(plane, first))
    assert load.failures == {}
    assert load.calls > 100
    assert answered(follower) >= load.calls
    assert follower.logs(msg="became the leader")
    assert not [line for line in (*leader.logs(), *follower.logs()) if line.get("level") == "error"]
    assert "PRIVATE" not in leader.process.output() + follower.process.output()
    assert follower.stop() == 0
