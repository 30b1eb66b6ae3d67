"""Shared fixtures of the clients' tests."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.crds import DEFINITIONS, wait_served


@pytest.fixture
def gadget_group(control_plane: ControlPlane) -> Iterator[str]:
    """Yield the API group of a custom kind `Gadget`, served at v1 with a status and a size."""
    group = f"c{secrets.token_hex(4)}.example.com"
    name = f"gadgets.{group}"
    control_plane.api.create(DEFINITIONS, _definition(name, group))
    wait_served(control_plane)
    yield group
    control_plane.api.delete(f"{DEFINITIONS}/{name}")


def _definition(name: str, group: str) -> dict[str, Any]:
    size = {"type": "integer", "minimum": 1, "default": 1}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": size}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"}
    return {
        "metadata": {"name": name},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
