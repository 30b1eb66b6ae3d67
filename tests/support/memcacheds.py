"""Memcached objects for the integration tests."""

from __future__ import annotations

from typing import Any

from tests.support.api_objects import deployment_path, manifest, object_path
from tests.support.control_plane import ControlPlane

API = "cache.example.com/v1"
MEMCACHEDS = "memcacheds.v1.cache.example.com"


def memcached(name: str, size: int = 3, **spec: Any) -> dict[str, Any]:
    return manifest(API, "Memcached", name, size=size, **spec)


def memcached_path(namespace: str, name: str = "") -> str:
    return object_path(API, namespace, "memcacheds", name)


def assert_converged(plane: ControlPlane, namespace: str, names: list[str], *, size: int) -> None:
    """Assert that each Memcached has a current status and a Deployment with `size` replicas."""
    found = {each["metadata"]["name"]: each for each in plane.api.get(memcached_path(namespace))["items"]}
    deployments = {
        each["metadata"]["name"]: each for each in plane.api.get(deployment_path(namespace))["items"]
    }
    assert set(names) <= set(found)
    for name in names:
        status, generation = found[name].get("status", {}), found[name]["metadata"]["generation"]
        assert status.get("observedGeneration") == generation, f"{name}: {status}"
        assert name in deployments, f"{name} has no Deployment"
        assert deployments[name]["spec"]["replicas"] == size, f"{name}: {deployments[name]['spec']}"
    assert set(deployments) == set(found), "a Deployment without its Memcached, or the reverse"
