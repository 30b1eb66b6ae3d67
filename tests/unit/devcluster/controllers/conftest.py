from __future__ import annotations

import asyncio
import importlib.util
import random
import sys
from pathlib import Path

import pytest

from devcluster.clock import Clock
from devcluster.controllers import Controllers
from devcluster.storage import Key, Store

START = 1_800_000_000


def _fake_client():
    spec = importlib.util.spec_from_file_location(
        "devcluster_controllers_fake", Path(__file__).with_name("fake_client.py")
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.FakeClient


class Cluster:
    """A cluster in virtual time, with what tests ask of it."""

    def __init__(self, *, pod_ready_delay: float = 0.0) -> None:
        loop = asyncio.get_running_loop()
        self.clock = Clock(lambda: START + loop.time())
        self.store = Store()
        self.rng = random.Random(7)
        self.client = _fake_client()(self.store, self.clock, self.rng)
        self.controllers = Controllers(
            self.client,
            self.store,
            self.clock,
            self.rng,
            pod_ready_delay=pod_ready_delay,
            ca_pem="CERTIFICATE",
        )
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

    def events(self, kind: str = "") -> list[tuple[str, str]]:
        return [
            (event["reason"], event["message"])
            for event in sorted(self.list("events"), key=lambda each: int(each["metadata"]["name"].rsplit(".")[-1], 16))
            if not kind or event["involvedObject"]["kind"] == kind
        ]

    async def settle(self, seconds: float = 5.0) -> None:
        await asyncio.sleep(seconds)


@pytest.fixture
async def cluster():
    made = Cluster()
    async with made.controllers:
        await asyncio.sleep(0.1)
        yield made


@pytest.fixture
async def slow_cluster():
    made = Cluster(pod_ready_delay=1.0)
    async with made.controllers:
        await asyncio.sleep(0.1)
        yield made


@pytest.fixture
def deployment():
    def make(name: str = "web", replicas: int = 3, image: str = "nginx:1", **spec) -> dict:
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

    return make


def template(app: str, image: str = "nginx:1", **spec) -> dict:
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": image}], **spec},
    }


@pytest.fixture(name="template")
def template_fixture():
    return template
