from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from devcluster.api.interfaces import LogOptions
from devcluster.clock import Clock
from devcluster.cluster import DevCluster
from devcluster.controllers import PodLogs
from devcluster.controllers.container_runtime import ContainerRuntime
from devcluster.controllers.controller import View
from devcluster.storage import Key


class Cluster:
    """Devcluster in virtual time, with helper methods for tests."""

    def __init__(self, devcluster: DevCluster) -> None:
        self.devcluster = devcluster
        self.clock, self.rng = devcluster.clock, devcluster.rng
        self.store, self.client = devcluster.store, devcluster.client
        self.seen: list[tuple[str, str, dict | None]] = []
        self.store.subscribe(
            lambda change: self.seen.append(
                (change.key.plural, change.key.name, change.new.decode() if change.new else None)
            )
        )

    async def apply(self, resource: str, obj: dict, namespace: str = "x") -> dict:
        obj["metadata"].setdefault("namespace", namespace)
        return await self.client.create(resource, namespace, obj)

    def get(self, resource: str, name: str, namespace: str = "x") -> dict | None:
        plural, _, group = resource.partition(".")
        stored = self.store.get(Key(group, plural, namespace, name))
        return stored.decode() if stored else None

    def list(self, resource: str, namespace: str = "x") -> list[dict]:
        plural, _, group = resource.partition(".")
        return [stored.decode() for stored in self.store.select(group, plural, namespace)]

    def status(self, pod: str = "p") -> dict:
        return self.get("pods", pod)["status"]

    def container(self, pod: str = "p") -> dict:
        """Return the status of the pod's first container."""
        return self.status(pod)["containerStatuses"][0]

    def events(self, kind: str = "") -> list[tuple[str, str]]:
        return [
            (event["reason"], event["message"])
            for event in sorted(
                self.list("events"), key=lambda each: int(each["metadata"]["name"].rsplit(".")[-1], 16)
            )
            if not kind or event["involvedObject"]["kind"] == kind
        ]

    def condition(
        self, kind: str, resource: str = "pods", name: str = "p", namespace: str = "x"
    ) -> tuple[str, str, str]:
        """Return status, reason and message of the condition of this type."""
        conditions = self.get(resource, name, namespace)["status"]["conditions"]
        found = next(each for each in conditions if each["type"] == kind)
        return found["status"], found.get("reason", ""), found.get("message", "")

    async def logs(self, name: str = "p", **options: Any) -> list[bytes]:
        """Return the log of the pod's container `c`."""
        logs = PodLogs(self.store, self.clock, ContainerRuntime(View(self.store)))
        return [line async for line in logs.stream(self.get("pods", name), "c", LogOptions(**options))]

    async def settle(self, seconds: float = 5.0) -> None:
        await asyncio.sleep(seconds)

    async def settled(self, resource: str, obj: dict, seconds: float = 5.0) -> None:
        """Create the object, and give the controllers this many seconds of virtual time."""
        await self.apply(resource, obj)
        await self.settle(seconds)

    async def patch(self, resource: str, name: str, patch: dict, seconds: float = 5.0) -> None:
        """Patch the object, and give the controllers this many seconds of virtual time."""
        await self.client.patch(resource, "x", name, patch)
        await self.settle(seconds)

    async def delete(self, resource: str, name: str, *, seconds: float = 5.0, **options: Any) -> None:
        """Delete the object, and give the controllers this many seconds of virtual time."""
        await self.client.delete(resource, "x", name, **options)
        await self.settle(seconds)


@contextlib.asynccontextmanager
async def started(pod_ready_delay: float, **options: Any) -> AsyncIterator[Cluster]:
    loop = asyncio.get_running_loop()
    devcluster = DevCluster(
        port=None,
        pod_ready_delay=pod_ready_delay,
        clock=Clock(loop.wall_clock),
        rng=random.Random(7),
        **options,
    )
    async with devcluster:
        cluster = Cluster(devcluster)
        await asyncio.sleep(0.1)
        for name in ("x", "y"):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await cluster.client.create("namespaces", "", namespace)
        await asyncio.sleep(0.1)
        cluster.seen.clear()
        yield cluster


@pytest.fixture
async def cluster():
    async with started(0.0) as made:
        yield made


@pytest.fixture
async def slow_cluster():
    async with started(1.0) as made:
        yield made


def deployment(name: str = "web", replicas: int = 3, image: str = "nginx:1", **spec: Any) -> dict:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, image),
            **spec,
        },
    }


def template(app: str, image: str = "nginx:1", **spec: Any) -> dict:
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": image}], **spec},
    }


def pod(name: str = "p", *, image: str = "nginx:1", annotations: dict | None = None, **spec: Any) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "c", "image": image}], **spec},
    }
