"""Webhook certificates with a real API server, and a change from a URL to a Service."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from controllers.main import OPERATORS, PROGRAM
from manager.certificates.factory import Certificates, secret_certificates
from manager.certificates.local_registration import take_away
from manager.certificates.rotation import Lifetimes
from manager.certificates.targets import Target, targets_of
from manager.kube.config import load_config
from manager.kube.errors import Conflict, Invalid
from manager.kube.http_wire import HttpWire
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from manager.tls.certificate import certificates_in
from manager.webhook.configurations import (
    by_service,
    by_url,
    conversion_by,
    webhook_configurations,
)
from manager.webhook.methods import registrations
from manager.webhook.registration import Webhooks
from manager_tools.codegen.roles import injection_rights, secret_rights
from tests.conftest import StartControlPlane
from tests.support.control_plane import ControlPlane
from tests.support.crds import DEFINITIONS
from tests.support.envtest import BARE
from tests.support.eventually import eventually_async
from tests.support.roles import grant_rules
from tests.support.webhook_service import client_configs

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PETS = f"{DEFINITIONS}/pets.petstore.example.com"
MUTATING = f"{ADMISSION}/mutatingwebhookconfigurations/test-mutating-webhook-configuration"
VALIDATING = f"{ADMISSION}/validatingwebhookconfigurations/test-validating-webhook-configuration"
SECRET = "/api/v1/namespaces/default/secrets/test-webhook-server-cert"
AT_URL = by_url("https://127.0.0.1:9443")
AT_SERVICE = by_service("default", "test-webhook-service")
SETTLES_SOON = Lifetimes(settle=timedelta(seconds=0.5))
WEBHOOKS = Webhooks([each for operator in OPERATORS for each in registrations(operator)])


@pytest.fixture(scope="module")
def own_plane(module_control_plane: StartControlPlane) -> ControlPlane:
    """Start a control plane for this module, because the test's webhooks would disturb other tests."""
    return module_control_plane(parts=BARE, crds=True)


@pytest.fixture
def plane(own_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Yield the control plane; then delete the webhook configurations and the Secret."""
    yield own_plane
    for path in (MUTATING, VALIDATING, SECRET):
        own_plane.api.delete(path)


@pytest.fixture
def installed(plane: ControlPlane) -> ControlPlane:
    """Install the webhook configurations as `make deploy` does, without a certificate."""
    install(plane)
    return plane


def install(plane: ControlPlane) -> None:
    """Apply the webhook configurations, and replace the conversion in the CRD of Pets."""
    plane.api.apply(webhook_configurations(WEBHOOKS, AT_SERVICE, PROGRAM, prefix="test-"))
    replaced = {"op": "replace", "path": "/spec/conversion", "value": conversion_by(AT_SERVICE)}
    plane.api.request("PATCH", PETS, body=[replaced], content_type="application/json-patch+json")


def set_bundle(plane: ControlPlane, path: str, bundle: str | None) -> None:
    """Set the CA bundle (base64) of a CRD's conversion webhook; None removes it."""
    plane.api.patch(path, {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}})


def secret(plane: ControlPlane) -> dict[str, bytes]:
    """Return the decoded data of the Secret with the certificates."""
    data = plane.api.get(SECRET)["data"]
    return {name: base64.b64decode(text) for name, text in data.items()}


def all_trust(plane: ControlPlane, certificates: Certificates) -> None:
    """Assert that every webhook client configuration trusts the served certificate."""
    pair = certificates.source.pair(datetime.now(UTC))
    [serving] = certificates_in(pair.certificates)
    assert serving.names >= {"test-webhook-service.default.svc"}
    assert pair.certificates == secret(plane)["tls.crt"]
    for config in client_configs(plane):
        bundle = base64.b64decode(config.get("caBundle", ""))
        assert any(serving.vouched_for_by(each) for each in certificates_in(bundle)), config.get("service")


@asynccontextmanager
async def transport_of(kubeconfig: Path) -> AsyncIterator[Transport]:
    config = await load_config(kubeconfig=str(kubeconfig), context=None, environ=os.environ)
    wire = HttpWire(config)
    try:
        yield Transport(wire, metrics=Metrics(), rng=random.Random(1), user_agent="test")
    finally:
        await wire.aclose()


@asynccontextmanager
async def running(kubeconfig: Path) -> AsyncIterator[Certificates]:
    """Run the certificate rotator of a leader, without a webhook server."""
    async with transport_of(kubeconfig) as transport:
        kept = secret_certificates(
            transport,
            WEBHOOKS,
            PROGRAM,
            namespace="default",
            prefix="test-",
            lifetimes=SETTLES_SOON,
            look_every=0.5,
            read_every=0.5,
        )
        tasks = [asyncio.create_task(each.run(), name=each.name) for each in kept.runnables]
        try:
            yield kept
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task


@pytest.mark.oldest
async def test_certificate_creation_succeeds_with_only_the_documented_rights(installed: ControlPlane):
    user = "certificates"
    grant_rules(installed, user, secret_rights("test-"), namespace="default")
    definitions = [PETS.rpartition("/")[2]]
    grant_rules(installed, user, injection_rights("test-", definitions))
    async with running(installed.user_kubeconfig(user)) as certificates:
        await eventually_async(lambda: asyncio.to_thread(all_trust, installed, certificates))
    kept = installed.api.get(SECRET)
    assert kept["type"] == "kubernetes.io/tls"
    assert set(secret(installed)) == {"tls.crt", "tls.key", "ca.crt", "ca.key"}

    # Another replica, or the same one after a restart, reuses the existing certificates.
    with capture_logs() as lines:
        async with running(installed.user_kubeconfig(user)) as certificates:
            await eventually_async(lambda: asyncio.to_thread(all_trust, installed, certificates))
            await asyncio.sleep(1)
    assert installed.api.get(SECRET)["metadata"]["resourceVersion"] == kept["metadata"]["resourceVersion"]
    assert lines == []


@pytest.mark.contract
async def test_certificate_rotator_restores_ca_bundles_that_an_installer_reset(installed: ControlPlane):
    async with running(installed.kubeconfig) as certificates:
        await eventually_async(lambda: asyncio.to_thread(all_trust, installed, certificates))
        reset = installed.api.get(VALIDATING)
        before = secret(installed)
        with capture_logs() as lines:
            for each in reset["webhooks"]:
                each["clientConfig"]["caBundle"] = ""
            installed.api.request("PUT", VALIDATING, body=reset)
            set_bundle(installed, PETS, None)
            await eventually_async(lambda: asyncio.to_thread(all_trust, installed, certificates))
            # The write is logged after its response, which may be after the write is visible.
            await eventually_async(lambda: asyncio.sleep(0, len(lines) == 2))
        assert secret(installed) == before
    told = [line["target"] for line in lines]
    assert sorted(told) == [
        "CustomResourceDefinition pets.petstore.example.com",
        "ValidatingWebhookConfiguration test-validating-webhook-configuration",
    ]


async def test_rotator_logs_a_missing_webhook_configuration_once_and_updates_it_later(plane: ControlPlane):
    with capture_logs() as lines:
        async with running(plane.kubeconfig) as certificates:
            # The configurations are missing, and readiness does not depend on them.
            await eventually_async(lambda: asyncio.to_thread(certificates.source.pair, datetime.now(UTC)))
            await asyncio.sleep(1.5)
            missing = [line["reason"] for line in lines if "is not installed" in line.get("reason", "")]
            assert len(missing) == 2
            install(plane)
            await eventually_async(lambda: asyncio.to_thread(all_trust, plane, certificates))


@pytest.mark.parametrize(
    ("path", "whole"),
    [(MUTATING, False), (VALIDATING, False), (VALIDATING, True), (PETS, False), (PETS, True)],
)
async def test_ca_bundle_write_does_not_overwrite_a_concurrent_change(
    installed: ControlPlane, path: str, whole: bool
):
    async with transport_of(installed.kubeconfig) as transport:
        at = AT_URL if whole else AT_SERVICE
        targets = targets_of(transport, WEBHOOKS, PROGRAM, at, "test-", whole=whole)
        target = targets[(MUTATING, VALIDATING, PETS).index(path)]
        found = await target.look()
        if path == PETS:
            set_bundle(installed, PETS, base64.b64encode(installed.credentials.authority).decode())
        else:
            changed = installed.api.get(path)
            other = {"namespace": "other", "name": "other", "path": "/x"}
            changed["webhooks"][0]["clientConfig"]["service"] = other
            installed.api.request("PUT", path, body=changed)
        before = installed.api.get(path)
        bundle = installed.credentials.authority
        with pytest.raises((Conflict, Invalid)):
            await target.inject(found, bundle)
        assert installed.api.get(path) == before
        found = await target.look()
        await target.inject(found, bundle)
        found = await target.look()
        assert found.intact
        assert set(found.bundles) == {bundle}
        assert not whole or found.hosts[0] == "127.0.0.1"


@pytest.mark.contract
@pytest.mark.parametrize("applied_before", [False, True])
@pytest.mark.parametrize("server_side", [False, True])
async def test_applied_manifest_replaces_the_url_with_the_service_in_webhook_client_configs(
    plane: ControlPlane, *, applied_before: bool, server_side: bool
):
    installation = manifests(plane)
    if applied_before:
        await apply(plane, installation, server_side=server_side)
    for _ in range(2):  # to the Service and back to the URL, twice
        await write_urls(plane)
        assert all("url" in each for each in client_configs(plane))
        await apply(plane, installation, server_side=server_side)
        # Server-side apply may keep the bundle of the last manager; the next manager replaces it.
        also = {"caBundle"} if server_side else set()
        assert all({"service"} <= set(each) <= {"service"} | also for each in client_configs(plane))
    # The manager owns only the conversion of the CRD.
    assert plane.api.get(PETS)["spec"]["versions"] == installation[-1]["spec"]["versions"]


@pytest.mark.contract
async def test_local_webhook_registration_restores_former_client_configs_when_it_ends(plane: ControlPlane):
    await apply(plane, manifests(plane))
    before = client_configs(plane)
    await write_urls(plane)
    await write_urls(plane)  # a second write keeps the saved original
    assert all("url" in each for each in client_configs(plane))
    async with transport_of(plane.kubeconfig) as transport:
        targets = local_targets(transport)
        await take_away(targets, "https://127.0.0.1:944")
        assert all("url" in each for each in client_configs(plane)), (
            "the configuration belongs to another manager"
        )
        await take_away(targets, "https://127.0.0.1:9443/")
    assert client_configs(plane) == before
    for path in (MUTATING, VALIDATING, PETS):
        assert "until-stopped" not in json.dumps(plane.api.get(path)["metadata"].get("labels"))
        assert "operator-manager/before" not in plane.api.get(path)["metadata"]["annotations"]


def local_targets(transport: Transport) -> list[Target]:
    return targets_of(transport, WEBHOOKS, PROGRAM, AT_URL, "test-", whole=True, until_stopped=True)


async def write_urls(plane: ControlPlane) -> None:
    async with transport_of(plane.kubeconfig) as transport:
        for target in local_targets(transport):
            await target.inject(await target.look(), plane.credentials.authority)
            assert (await target.look()).intact


def manifests(plane: ControlPlane) -> list[dict[str, Any]]:
    """Return both webhook configurations and a CRD as an installation applies them."""
    definition = plane.api.get(PETS)
    return [
        *webhook_configurations(WEBHOOKS, AT_SERVICE, PROGRAM, prefix="test-"),
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": definition["metadata"]["name"]},
            "spec": {**definition["spec"], "conversion": conversion_by(AT_SERVICE)},
        },
    ]


async def apply(plane: ControlPlane, objects: list[dict[str, Any]], *, server_side: bool = False) -> None:
    """Run `kubectl apply`; `server_side` adds --server-side and sets URLs to null, as `make deploy` does."""
    if server_side:
        objects = copy.deepcopy(objects)
        for each in objects:
            webhooks = each.get("webhooks") or [each["spec"]["conversion"]["webhook"]]
            for webhook in webhooks:
                webhook["clientConfig"]["url"] = None
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    how = ("--server-side", "--force-conflicts") if server_side else ()
    await asyncio.to_thread(plane.kubectl, "apply", *how, "-f", "-", stdin=listed)
