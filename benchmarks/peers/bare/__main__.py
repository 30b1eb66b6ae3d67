"""The minimum cost of the Memcached operator's work in Python: no cache, no queue, no models, no retries.

    python -m benchmarks.peers.bare --kubeconfig FILE [--concurrency N]

The program lists the Memcacheds once, creates a Deployment for each, and writes its status. Then it waits for
a signal, so that its memory and CPU can be read. It is the baseline for the manager's overhead, and no
example of an operator.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import uvloop

from benchmarks.api_load import JSON, MERGE
from tests.support.kubeconfig import Credentials

ANSWERS = {"tcpSocket": {"port": "memcached"}, "timeoutSeconds": 3}
CONDITIONS = {"Available": "False", "Progressing": "True", "Degraded": "False"}


async def run(kubeconfig: Path, concurrency: int) -> None:
    """Process all Memcacheds once, then wait for a signal, so that memory and CPU can be read."""
    credentials = Credentials.read(kubeconfig)
    with tempfile.TemporaryDirectory() as scratch:
        context = credentials.ssl_context(Path(scratch))
    connector = aiohttp.TCPConnector(ssl=context, limit=concurrency)
    headers = {
        "Authorization": f"Bearer {credentials.token}",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }
    async with aiohttp.ClientSession(credentials.server, connector=connector, headers=headers) as session:
        async with session.get("/apis/cache.example.com/v1/memcacheds") as answer:
            answer.raise_for_status()
            pending = iter(orjson.loads(await answer.read())["items"])
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(work(session, pending))
        await asyncio.Event().wait()


async def work(session: aiohttp.ClientSession, pending: Iterator[dict[str, Any]]) -> None:
    """Create the Deployment of each Memcached, then write the Memcached's status."""
    for each in pending:
        namespace, name = each["metadata"]["namespace"], each["metadata"]["name"]
        deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        await send(session, "POST", deployments, deployment(each), JSON)
        status = f"/apis/cache.example.com/v1/namespaces/{namespace}/memcacheds/{name}/status"
        await send(session, "PATCH", status, {"status": observed(each)}, MERGE)


async def send(
    session: aiohttp.ClientSession, method: str, path: str, body: dict[str, Any], content_type: str
) -> None:
    """Send one write request."""
    headers = {"Content-Type": content_type}
    async with session.request(method, path, data=orjson.dumps(body), headers=headers) as answer:
        answer.raise_for_status()
        await answer.read()


def deployment(memcached: dict[str, Any]) -> dict[str, Any]:
    """Build the same Deployment as the Memcached operator."""
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
    """Build a status of the same size as the Memcached operator's."""
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
    uvloop.run(run(options.kubeconfig, options.concurrency))


if __name__ == "__main__":
    main()
