"""From a manager that is reached at a URL to an installation with a Service, by `kubectl apply` alone."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import os
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from controllers.main import OPERATORS, PROGRAM
from manager.certificates.local_registration import take_away
from manager.certificates.targets import Target, targets_of
from manager.kube.config import load_config
from manager.kube.http_wire import HttpWire
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from manager.webhook.configurations import by_service, by_url, conversion_by, webhook_configurations
from manager.webhook.methods import registrations
from manager.webhook.registration import Webhooks
from tests.conftest import StartControlPlane
from tests.support.control_plane import ControlPlane
from tests.support.crds import DEFINITIONS
from tests.support.envtest import BARE
from tests.support.webhook_service import client_configs

pytestmark = pytest.mark.contract

PETS = f"{DEFINITIONS}/pets.petstore.example.com"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = [
    f"{ADMISSION}/{sort}webhookconfigurations/test-{sort}-webhook-configuration"
    for sort in ("mutating", "validating")
]
AT_URL = by_url("https://127.0.0.1:9443")
AT_SERVICE = by_service("default", "test-webhook-service")
WEBHOOKS = Webhooks([each for operator in OPERATORS for each in registrations(operator)])


@pytest.fixture(scope="module")
def plane(module_control_plane: StartControlPlane) -> ControlPlane:
    """Start a control plane for this module, because our configurations would disturb other tests."""
    return module_control_plane(parts=BARE, crds=True)


@pytest.mark.parametrize("applied_before", [False, True])
@pytest.mark.parametrize("server_side", [False, True])
async def test_applied_service_takes_the_place_of_the_url(
    plane: ControlPlane, *, applied_before: bool, server_side: bool
):
    installation = manifests(plane)
    if applied_before:
        await apply(plane, installation, server_side=server_side)
    for _ in range(2):  # there and back, and once more
        await write_urls(plane)
        assert all("url" in each for each in client_configs(plane))
        await apply(plane, installation, server_side=server_side)
        # Server-side apply may leave the bundle to the manager that has written it: the next one replaces it.
        also = {"caBundle"} if server_side else set()
        assert all({"service"} <= set(each) <= {"service"} | also for each in client_configs(plane))
    # Of the definition, the manager has noted the conversion alone as applied.
    assert plane.api.get(PETS)["spec"]["versions"] == installation[-1]["spec"]["versions"]
    for path in CONFIGURATIONS:
        plane.api.delete(path)


async def test_local_registration_restores_client_configs_that_were_installed_before(plane: ControlPlane):
    await apply(plane, manifests(plane))
    before = client_configs(plane)
    await write_urls(plane)
    await write_urls(plane)  # a renewal is no other beginning
    assert all("url" in each for each in client_configs(plane))
    async with transport_to(plane) as transport:
        targets = local_targets(transport)
        await take_away(targets, "https://127.0.0.1:944")
        assert all("url" in each for each in client_configs(plane)), "it is another one's"
        await take_away(targets, "https://127.0.0.1:9443/")
    assert client_configs(plane) == before
    for path in (*CONFIGURATIONS, PETS):
        assert "until-stopped" not in json.dumps(plane.api.get(path)["metadata"].get("labels"))
        assert "operator-manager/before" not in plane.api.get(path)["metadata"]["annotations"]
    for path in CONFIGURATIONS:
        plane.api.delete(path)


@contextlib.asynccontextmanager
async def transport_to(plane: ControlPlane) -> AsyncIterator[Transport]:
    config = await load_config(kubeconfig=str(plane.kubeconfig), context=None, environ=os.environ)
    wire = HttpWire(config)
    try:
        yield Transport(wire, metrics=Metrics(), rng=random.Random(1), user_agent="test")
    finally:
        await wire.aclose()


def local_targets(transport: Transport) -> list[Target]:
    return targets_of(transport, WEBHOOKS, PROGRAM, AT_URL, "test-", whole=True, until_stopped=True)


async def write_urls(plane: ControlPlane) -> None:
    async with transport_to(plane) as transport:
        for target in local_targets(transport):
            await target.inject(await target.look(), plane.credentials.authority)
            assert (await target.look()).intact


def manifests(plane: ControlPlane) -> list[dict[str, Any]]:
    """Return the two configurations and a definition, as an installation applies them."""
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
    """Apply as kubectl does, or on the server's side as `make deploy` does, with a null for the URL."""
    if server_side:
        objects = copy.deepcopy(objects)
        for each in objects:
            webhooks = each.get("webhooks") or [each["spec"]["conversion"]["webhook"]]
            for webhook in webhooks:
                webhook["clientConfig"]["url"] = None
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    how = ("--server-side", "--force-conflicts") if server_side else ()
    await asyncio.to_thread(plane.kubectl, "apply", *how, "-f", "-", stdin=listed)
