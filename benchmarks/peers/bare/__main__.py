"""The least that Memcached's work can cost in Python: no cache, no queue, no models, no retries.

    python -m benchmarks.peers.bare --kubeconfig FILE [--concurrency N]

Lists the Memcacheds once; for each, creates its Deployment and then writes its status; then waits to be
ended, so that its memory and CPU can be read. This is the yardstick that the manager's overhead is measured
against, and no example of how to write an operator.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.bare import JSON, MERGE_PATCH, BareLoop, run

ANSWERS = {"tcpSocket": {"port": "memcached"}, "timeoutSeconds": 3}
CONDITIONS = {"Available": "False", "Progressing": "True", "Degraded": "False"}


class BareMemcacheds(BareLoop):
    """A Deployment and a status each."""

    PATH = "/apis/cache.example.com/v1/memcacheds"

    async def work(self, obj: dict[str, Any]) -> None:
        """Create the Deployment, then write the status."""
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        await self.send("POST", deployments, deployment(obj), JSON)
        status = f"/apis/cache.example.com/v1/namespaces/{namespace}/memcacheds/{name}/status"
        await self.send("PATCH", status, {"status": observed(obj)}, MERGE_PATCH)


def deployment(memcached: dict[str, Any]) -> dict[str, Any]:
    """Build the same Deployment as the operator."""
    metadata = memcached["metadata"]
    labels = {"app": "memcached", "memcached_cr": metadata["name"]}
    shown = {
        **labels,
        "app.kubernetes.io/name": "memcached",
        "app.kubernetes.io/instance": metadata["name"],
        "app.kubernetes.io/managed-by": "operator-manager",
    }
    owner = {
        "apiVersion": memcached["apiVersion"],
        "kind": memcached["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    container = {
        "name": "memcached",
        "image": "memcached:1.6.39-alpine",
        "command": ["memcached", "-m", "64", "-o", "modern", "-v"],
        "ports": [{"name": "memcached", "containerPort": 11211, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "128Mi"}},
        "readinessProbe": {**ANSWERS, "periodSeconds": 5},
        "livenessProbe": {**ANSWERS, "periodSeconds": 10},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 11211,
        },
    }
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": metadata["name"], "labels": shown, "ownerReferences": [owner]},
        "spec": {
            "replicas": memcached["spec"]["size"],
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": shown}, "spec": pod},
        },
    }


def observed(memcached: dict[str, Any]) -> dict[str, Any]:
    """Build a status of the operator's size."""
    generation = memcached["metadata"]["generation"]
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": "AsExpected",
            "message": "0 of 3 replicas are ready",
            "observedGeneration": generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind, status in CONDITIONS.items()
    ]
    return {
        "nodes": [],
        "nodeCount": 0,
        "replicas": 0,
        "readyReplicas": 0,
        "selector": f"app=memcached,memcached_cr={memcached['metadata']['name']}",
        "observedGeneration": generation,
        "conditions": conditions,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument(
        "--concurrency", type=int, default=8, help="objects worked on at a time (%(default)s)"
    )
    options = parser.parse_args()
    run(BareMemcacheds, options.kubeconfig, options.concurrency)


if __name__ == "__main__":
    main()
