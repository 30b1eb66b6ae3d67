"""The Memcached operator, exercised with kubectl as a user would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import RunManager
from tests.support.api_objects import condition, deployment_path, pod_path
from tests.support.control_plane import ControlPlane, Feature
from tests.support.eventually import eventually
from tests.support.walk import Walk, walking

SAMPLE = "config/samples/cache_v1_memcached.yaml"


class MemcachedWalk(Walk):
    """Walk through Memcacheds in one namespace."""

    def memcached(self, name: str = "memcached-sample") -> dict[str, Any]:
        return self.get("cache.example.com/v1", "memcacheds", name)

    def has_ready_nodes(self, count: int, name: str = "memcached-sample") -> None:
        """Assert that `nodes` names exactly the ready pods of the Memcached."""
        status = self.memcached(name)["status"]
        pods = self.plane.api.get(pod_path(self.namespace), labelSelector=f"memcached_cr={name}")["items"]
        running = sorted(
            pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]
        )
        assert len(running) == count
        assert status["nodes"] == running
        assert status["readyReplicas"] == status["replicas"] == count


@pytest.fixture
def walk(crds: ControlPlane, namespace: str, run_manager: RunManager) -> Iterator[MemcachedWalk]:
    manager = run_manager(crds.kubeconfig, f"--namespaces={namespace}", "--controllers=memcached")
    with walking(MemcachedWalk, crds, namespace, manager) as walk:
        yield walk


@pytest.mark.oldest
@pytest.mark.smoke
def test_memcached_sample_works_end_to_end(walk: MemcachedWalk):
    walk.plane.require(Feature.WORKLOADS, Feature.READY_PODS)

    walk.kubectl("apply", "-f", SAMPLE)
    eventually(lambda: walk.has_ready_nodes(3))
    assert condition(walk.memcached(), "Available")["status"] == "True"
    eventually(lambda: condition(walk.memcached(), "Progressing")["status"] == "False")
    assert condition(walk.memcached(), "Degraded")["status"] == "False"
    header, row = walk.kubectl("get", "memcached").splitlines()
    assert header.split() == ["NAME", "SIZE", "READY", "AGE"]
    assert row.split()[:3] == ["memcached-sample", "3", "3"]

    def describes() -> None:
        described = walk.kubectl("describe", "memcached", "memcached-sample")
        words = ("Created Deployment memcached-sample", "operator-manager", "Available", "Progressing")
        assert all(word in described for word in (*words, "Degraded"))

    eventually(describes)

    walk.kubectl("patch", "memcached", "memcached-sample", "--type=merge", "-p", '{"spec":{"size":5}}')
    eventually(lambda: walk.has_ready_nodes(5))

    walk.kubectl("scale", "memcached/memcached-sample", "--replicas=2")
    eventually(lambda: walk.has_ready_nodes(2))

    walk.kubectl("scale", "memcached/memcached-sample", "--replicas=0")
    eventually(lambda: walk.has_ready_nodes(0))
    assert walk.memcached()["status"]["nodes"] == []

    walk.kubectl("delete", "-f", SAMPLE, "--wait=true")
    eventually(lambda: walk.plane.api.find(deployment_path(walk.namespace, "memcached-sample")) is None)
