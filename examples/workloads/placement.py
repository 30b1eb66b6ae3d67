"""A look-up of the pods' nodes: kubernetes-asyncio's API sends its request through the library's client."""

from __future__ import annotations

from kubernetes_asyncio.client import CoreV1Api

from examples.workloads.objects import SELECTOR
from manager.client import Client

__all__ = ["nodes_of_pods"]


async def nodes_of_pods(client: Client, namespace: str) -> dict[str, str]:
    """Return the name of each pod's node, by the pod's name; raises the client's errors."""
    # The request takes the client's credentials, TLS, proxy and retries.
    core = CoreV1Api(client.kubernetes_client())
    pods = await core.list_namespaced_pod(namespace, label_selector=SELECTOR)
    return {pod.metadata.name: pod.spec.node_name for pod in pods.items}
