"""Fixtures of the tests of third-party clients."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.crds import DEFINITIONS, wait_served


@pytest.fixture
def gadget_group(control_plane: ControlPlane) -> Iterator[str]:
    """Yield the API group of the kind `Gadget`, with the version v1, a status and the field `spec.size`."""
    group = f"c{secrets.token_hex(4)}.example.com"
    name = f"gadgets.{group}"
    size = {"type": "integer", "minimum": 1, "default": 1}
    fields = {
        "spec": {"type": "object", "properties": {"size": size}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": fields}},
        "subresources": {"status": {}},
    }
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    control_plane.api.create(DEFINITIONS, {"metadata": {"name": name}, "spec": spec})
    wait_served(control_plane)
    yield group
    control_plane.api.delete(f"{DEFINITIONS}/{name}")
