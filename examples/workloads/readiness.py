"""A wait for a ready Deployment, with the reasons if it does not become ready."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from examples.workloads.errors import Failure
from examples.workloads.objects import SELECTOR
from examples.workloads.progress import ready_progress
from manager.client import Client
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import Pod

__all__ = ["pod_reasons", "ready_replicas", "wait_ready"]


async def wait_ready(client: Client, deployment: Deployment, *, timeout: float) -> None:
    """Wait until all replicas are ready. Raises Failure, with the reasons, after `timeout` seconds."""
    name, total = deployment.metadata.name, deployment.spec["replicas"]
    ready = 0
    try:
        with ready_progress(f"deployment {name}", total) as show:
            async with (
                asyncio.timeout(timeout),
                client.watch(
                    Deployment,
                    namespace=deployment.metadata.namespace,
                    field_selector=f"metadata.name={name}",
                ) as live,
            ):
                async for found in live:
                    if not found:
                        raise Failure(f"deployment {name} was deleted by another client")
                    ready = ready_replicas(found[0])
                    show(ready)
                    if ready >= total:
                        return
    except TimeoutError:
        reasons = "; ".join(await _reasons(client, deployment)) or "the cluster does not say why"
        raise Failure(
            f"deployment {name}: {ready} of {total} replicas are ready after {timeout:g}s: {reasons}"
        ) from None


def ready_replicas(deployment: Deployment) -> int:
    """Return how many replicas are ready; 0 if the status is about an earlier spec."""
    status = deployment.status
    if status.get("observedGeneration", 0) < deployment.metadata.generation:
        return 0
    return min(status.get("readyReplicas", 0), status.get("updatedReplicas", 0))


async def _reasons(client: Client, deployment: Deployment) -> list[str]:
    found = await client.uncached.find(Deployment, deployment.key)
    reasons = [
        f"{each.get('reason', '')}: {each.get('message', '')}"
        for each in (found.status.get("conditions", ()) if found is not None else ())
        if each["type"] == "ReplicaFailure" and each["status"] == "True"
    ]
    pods = await client.uncached.list(Pod, namespace=deployment.metadata.namespace, labels=SELECTOR)
    for pod in pods:
        reasons.extend(f"pod {pod.metadata.name}: {reason}" for reason in pod_reasons(pod))
    return reasons


def pod_reasons(pod: Pod) -> Iterator[str]:
    """Yield the reasons of the pod's containers; if they have none, those of the pod."""
    waiting = [
        each["state"]["waiting"]
        for each in pod.status.get("containerStatuses", ())
        if each.get("state", {}).get("waiting")
    ]
    for each in waiting:
        yield ": ".join(filter(None, (each.get("reason"), each.get("message"))))
    if waiting:
        return
    conditions = {each["type"]: each for each in pod.status.get("conditions", ())}
    for kind in ("PodScheduled", "Ready"):
        condition = conditions.get(kind)
        if condition is not None and condition["status"] != "True":
            yield ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))
            return
    if not conditions:
        yield f"{pod.status.get('phase', 'Pending')}: no node has taken it yet"
