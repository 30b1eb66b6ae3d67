"""The least that Memcached's work can cost in Python: no cache, no queue, no models, no retries.

    python -m benchmarks.bare_loop --kubeconfig FILE [--concurrency N]

Lists the Memcacheds once; for each, creates its Deployment and then writes its status; then waits to be
ended, so that its memory and CPU can be read. This is the yardstick that the manager's overhead is measured
against, and no example of how to write an operator.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from tests.support.kubeconfig import Credentials

if TYPE_CHECKING:
    from collections.abc import Iterator

LIST = "/apis/cache.example.com/v1/memcacheds"
JSON = {"Content-Type": "application/json"}
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
CONDITIONS = {"Available": "False", "Progressing": "True", "Degraded": "False"}


class BareLoop:
    """One pass over all Memcacheds."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def run(self, concurrency: int) -> None:
        """Work on `concurrency` objects at a time."""
        async with self._session.get(LIST) as answer:
            answer.raise_for_status()
            pending = iter(orjson.loads(await answer.read())["items"])
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(self._work(pending))

    async def _work(self, pending: Iterator[dict[str, Any]]) -> None:
        for memcached in pending:
            namespace, name = memcached["metadata"]["namespace"], memcached["metadata"]["name"]
            deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
            await self._send("POST", deployments, deployment(memcached), JSON)
            status = f"/apis/cache.example.com/v1/namespaces/{namespace}/memcacheds/{name}/status"
            await self._send("PATCH", status, {"status": observed(memcached)}, MERGE_PATCH)

    async def _send(self, method: str, path: str, body: dict[str, Any], headers: dict[str, str]) -> None:
        async with self._session.request(method, path, data=orjson.dumps(body), headers=headers) as answer:
            answer.raise_for_status()
            await answer.read()


def deployment(memcached: dict[str, Any]) -> dict[str, Any]:
    """The same Deployment that the operator wants."""
    metadata = memcached["metadata"]
    labels = {"app": "memcached", "memcached_cr": metadata["name"]}
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
        "command": ["memcached", "-m=64", "-o", "modern", "-v"],
        "ports": [{"name": "memcached", "containerPort": 11211, "protocol": "TCP"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 11211,
        },
    }
    pod = {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": metadata["name"], "labels": labels, "ownerReferences": [owner]},
        "spec": {
            "replicas": memcached["spec"]["size"],
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def observed(memcached: dict[str, Any]) -> dict[str, Any]:
    """A status of the size that the operator writes."""
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
        "replicas": 0,
        "readyReplicas": 0,
        "selector": f"app=memcached,memcached_cr={memcached['metadata']['name']}",
        "observedGeneration": generation,
        "conditions": conditions,
    }


async def work(kubeconfig: Path, concurrency: int) -> None:
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
        await BareLoop(session).run(concurrency)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument(
        "--concurrency", type=int, default=8, help="objects worked on at a time (%(default)s)"
    )
    options = parser.parse_args()
    loop_factory = None
    with contextlib.suppress(ImportError):
        from uvloop import new_event_loop as loop_factory  # noqa: PLC0415 -- it does not exist on every system
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(work(options.kubeconfig, options.concurrency))


if __name__ == "__main__":
    main()
