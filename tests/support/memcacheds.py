"""Memcacheds as the integration tests make and look at them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane

GROUP_PATH = "/apis/cache.example.com/v1"


def memcached(name: str, size: int = 3, **spec: Any) -> dict[str, Any]:
    """A Memcached, as a user would write it."""
    return {
        "apiVersion": "cache.example.com/v1",
        "kind": "Memcached",
        "metadata": {"name": name},
        "spec": {"size": size, **spec},
    }


def memcached_path(namespace: str, name: str = "") -> str:
    """The path of one Memcached, or of all in the namespace."""
    path = f"{GROUP_PATH}/namespaces/{namespace}/memcacheds"
    return f"{path}/{name}" if name else path


def deployment_path(namespace: str, name: str = "") -> str:
    """The path of one Deployment, or of all in the namespace."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    return f"{path}/{name}" if name else path


def condition(obj: dict[str, Any], kind: str) -> dict[str, Any]:
    """The object's condition of that type; an AssertionError when it has none."""
    found = [each for each in obj.get("status", {}).get("conditions", ()) if each["type"] == kind]
    assert found, f"{obj['metadata']['name']} has no condition {kind}: {obj.get('status')}"
    return dict(found[0])


def assert_converged(plane: ControlPlane, namespace: str, names: list[str], *, size: int) -> None:
    """Each Memcached has a status made for its latest spec, and a Deployment of the wanted size."""
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
