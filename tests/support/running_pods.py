"""Running pods in a devcluster that may have no controllers."""

from __future__ import annotations

from typing import Any

from devcluster import DevCluster
from devcluster.storage import Key

_STARTED = "2026-11-21T12:00:00Z"


async def create_running_pod(
    cluster: DevCluster, name: str = "web", *, containers: tuple[str, ...] = ("main",), node: str = "node"
) -> dict[str, Any]:
    """Create a pod in `default` whose containers run on `node`; if `node` is empty, the pod stays pending."""
    spec = {"containers": [{"name": each, "image": "any"} for each in containers]}
    await cluster.client.create("pods", "default", {"metadata": {"name": name}, "spec": spec})
    stored = cluster.store.get(Key("", "pods", "default", name))
    assert stored is not None
    pod = stored.decode()
    if node:
        pod["spec"]["nodeName"] = node
        running = {"state": {"running": {"startedAt": _STARTED}}, "image": "any", "ready": True}
        statuses = [{"name": each, **running} for each in containers]
        pod["status"] = {"phase": "Running", "containerStatuses": statuses}
        cluster.store.update(stored.key, pod, expected=stored.version)
    return pod
