"""Pods of the operators: level `restricted`, no service account token, repaired security fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import RunManager
from tests.support.api_objects import condition, deployment_path, object_path, pod_path
from tests.support.control_plane import ControlPlane, Feature
from tests.support.eventually import eventually
from tests.support.memcacheds import memcached, memcached_path
from tests.support.wordpresses import wordpress, wordpress_path

DEPLOYMENTS = ("cache", "site-mysql", "site")
TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.fixture
def restricted(
    crds: ControlPlane, storage: None, namespace: str, run_manager: RunManager
) -> Iterator[ControlPlane]:
    """Create a Memcached and a Wordpress in a namespace that enforces the restricted level."""
    crds.require(Feature.READY_PODS)
    level = {"pod-security.kubernetes.io/enforce": "restricted"}
    crds.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": level}})
    flags = (f"--namespaces={namespace}", "--controllers=memcached,wordpress")
    manager = run_manager(crds.kubeconfig, *flags).wait_ready()
    crds.api.create(memcached_path(namespace), memcached("cache", 1))
    crds.api.create(wordpress_path(namespace), wordpress("site"))
    for api, plural, name in (
        ("cache.example.com/v1", "memcacheds", "cache"),
        ("example.com/v1", "wordpresses", "site"),
    ):
        path = object_path(api, namespace, plural, name)
        eventually(lambda path=path: condition(crds.api.get(path), "Available")["status"] == "True")
    yield crds
    assert not [line for line in manager.logs() if line.get("level") == "error"]


@pytest.mark.contract
def test_operator_pods_are_admitted_by_the_restricted_pod_security_level(
    restricted: ControlPlane, namespace: str
):
    restricted.require(Feature.POD_SECURITY)
    pods = restricted.api.get(pod_path(namespace))["items"]
    assert len(pods) == len(DEPLOYMENTS)
    for pod in pods:
        spec = pod["spec"]
        assert spec["enableServiceLinks"] is False
        mounts = [mount for each in spec["containers"] for mount in each.get("volumeMounts", ())]
        assert TOKEN_MOUNT not in [mount["mountPath"] for mount in mounts]
    # The namespace enforces the level.
    worse = {"metadata": {"name": "worse"}, "spec": {"containers": [{"name": "worse", "image": "worse"}]}}
    with pytest.raises(Exception, match="violates PodSecurity"):
        restricted.api.create(pod_path(namespace), worse)


def test_operators_restore_removed_pod_security_fields(restricted: ControlPlane, namespace: str):
    for name in DEPLOYMENTS:
        path = deployment_path(namespace, name)
        wanted = safety(restricted.api.get(path))
        for field in wanted:
            restricted.api.patch(
                path, [{"op": "remove", "path": field}], content_type="application/json-patch+json"
            )
            eventually(
                lambda path=path, wanted=wanted: safety(restricted.api.get(path)) == wanted,
                every=0.05,
            )


def safety(deployment: dict[str, Any]) -> dict[str, Any]:
    """Return the security fields of a pod template by their paths."""
    root = "/spec/template/spec"
    pod = deployment["spec"]["template"]["spec"]
    contexts = {"/securityContext": pod, "/containers/0/securityContext": pod["containers"][0]}
    found = {
        f"{root}/{each}": pod.get(each) for each in ("automountServiceAccountToken", "enableServiceLinks")
    }
    for path, holder in contexts.items():
        for name, value in (holder.get("securityContext") or {}).items():
            found[f"{root}{path}/{name}"] = value
    return found
