"""Leases on an in-process control plane, with writes by other clients."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from devcluster import DevCluster
from devcluster.storage import Key
from tests.support.cluster_wire import ClusterServer

GROUP, PLURAL = "coordination.k8s.io", "leases"
PREFIX = f"/apis/{GROUP}/v1/namespaces/"


class LeaseServer(ClusterServer):
    """Control plane that serves Leases only."""

    @staticmethod
    def path(namespace: str, name: str = "") -> str:
        """Return the path of a Lease, or of all in the namespace."""
        return f"{PREFIX}{namespace}/leases" + (f"/{name}" if name else "")

    @property
    def leases(self) -> dict[str, dict[str, Any]]:
        """Return all Leases by path."""
        found = (each.decode() for each in self.cluster.store.select(GROUP, PLURAL))
        return {self.path(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in found}

    def put(self, namespace: str, name: str, spec: dict[str, Any], **metadata: Any) -> None:
        """Store a Lease as another client would: over any existing one, valid or not."""
        store, key = self.cluster.store, Key(GROUP, PLURAL, namespace, name)
        if (stored := store.get(key)) is not None:
            lease = stored.decode()
            store.update(key, {**lease, "metadata": lease["metadata"] | metadata, "spec": spec})
            return
        metadata |= {"namespace": namespace, "name": name, "uid": str(uuid.uuid4())}
        lease = {"apiVersion": f"{GROUP}/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        store.create(key, lease)

    def delete(self, namespace: str, name: str) -> None:
        """Delete a Lease as another client would."""
        self.cluster.store.delete(Key(GROUP, PLURAL, namespace, name))

    def spec(self, namespace: str, name: str) -> dict[str, Any]:
        """Return the current spec of a Lease."""
        spec: dict[str, Any] = self.leases[self.path(namespace, name)]["spec"]
        return spec


@asynccontextmanager
async def lease_server() -> AsyncIterator[LeaseServer]:
    """Run a control plane without controllers."""
    async with DevCluster(port=None, controllers=False) as cluster:
        yield LeaseServer(cluster)
