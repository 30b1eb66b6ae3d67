"""Routes the Service of the webhooks to the test process, because pods have no network in the tests."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually

_SLICES = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def own_address() -> str:
    """Return a non-loopback address of this machine for an endpoint; skip the test if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            # This sends nothing; it only selects the local address.
            asking.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has only loopback addresses")
        return str(asking.getsockname()[0])


def lead_to_this_machine(plane: ControlPlane, namespace: str, service: str, port: int) -> None:
    """Add an endpoint with this machine's address to a Service that has no ready pods."""
    name = f"{service}-test"
    plane.api.apply(
        [
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": {"kubernetes.io/service-name": service},
                },
                "addressType": "IPv4",
                "endpoints": [{"addresses": [own_address()], "conditions": {"ready": True}}],
                "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
            }
        ]
    )

    def only_ours() -> None:
        slices = plane.api.get(_SLICES.format(namespace))["items"]
        ready = [
            each["metadata"]["name"]
            for each in slices
            if each["metadata"].get("labels", {}).get("kubernetes.io/service-name") == service
            for endpoint in each.get("endpoints") or ()
            if endpoint["conditions"].get("ready")
        ]
        assert ready == [name]

    eventually(only_ours)


def client_configs(plane: ControlPlane) -> list[dict[str, Any]]:
    """Return the client configurations of all admission and conversion webhooks."""
    found = [
        webhook["clientConfig"]
        for sort in ("mutating", "validating")
        for each in plane.api.get(_CONFIGURATIONS.format(sort))["items"]
        for webhook in each["webhooks"]
    ]
    for definition in plane.api.get(_DEFINITIONS)["items"]:
        conversion = definition["spec"]["conversion"]
        if conversion["strategy"] == "Webhook":
            found.append(conversion["webhook"]["clientConfig"])
    return found
