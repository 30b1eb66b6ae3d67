"""A Wordpress site in an in-process control plane, and managers whose writes can fail.

Nothing is cached: each read is a request, so that a test can observe the order of reads and writes.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, TypeVar

from apis.example.v1.wordpress import Wordpress
from controllers.example.wordpress import WordpressOperator
from controllers.main import PROGRAM
from devcluster import DevCluster
from manager import ControllerOptions
from manager.api import ObjectKey, ObjectMeta, PartialObjectMetadata, Resource
from manager.cache import Cache, Record, Selection
from manager.client import Client
from manager.client.reader import CachedReader
from manager.kube.errors import KubeError
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.kube.wire import Wire
from manager.operator import add_controller
from manager.process.manager import Manager
from manager.settings import SettingValues
from manager.telemetry.metrics import Metrics
from manager.util.yaml_text import yaml_documents
from manager_kinds.apps_v1 import Deployment
from tests.support import ROOT
from tests.unit.controllers.fate import Fate, FatefulWire, RecordedEvents

SITES = "wordpresses.example.com"
KINDS = ("persistentvolumeclaims", "secrets", "deployments.apps", "services")
DEFINITION = ROOT / "config/crd/bases/example.com_wordpresses.yaml"
SECRET = "site-mysql"

READY = {
    "observedGeneration": 1,
    "replicas": 1,
    "updatedReplicas": 1,
    "readyReplicas": 1,
    "availableReplicas": 1,
    "conditions": [{"type": "Available", "status": "True", "reason": "x", "message": "x"}],
}

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
Object = dict[str, Any]
R = TypeVar("R", bound=Resource)


class LiveClient(Client):
    """Client that reads from the server in all places where the manager's client reads its cache."""

    def __init__(self, wire: Wire, *, field_manager: str) -> None:
        metrics, rng = Metrics(), random.Random(1)
        transport = Transport(wire, metrics=metrics, rng=rng, user_agent="test")
        mapper = RestMapper(transport)
        cache = Cache(transport, mapper, field_manager=field_manager, metrics=metrics, rng=rng)
        super().__init__(transport, mapper, cache, field_manager=field_manager)
        self.metadata = SimpleNamespace(find=self._find_metadata)  # type: ignore[assignment]
        self.stale: dict[ObjectKey, Resource] = {}
        """Old objects that reads return in place of the current objects, by key."""

    def within(self, selection: Selection, *, ours: bool = False) -> CachedReader:
        return self

    async def records(self, kind: type[Resource], **_: Any) -> Sequence[Record]:
        return []  # there are no pods, because no controller runs

    async def find(self, kind: type[R], key: ObjectKey) -> R | None:
        known = self.stale.get(key)
        return known if isinstance(known, kind) else await self.uncached.find(kind, key)

    async def _find_metadata(self, kind: type[Resource], key: ObjectKey) -> PartialObjectMetadata | None:
        found = await self.uncached.find(kind, key)
        return None if found is None else PartialObjectMetadata(metadata=found.metadata)


@asynccontextmanager
async def in_process_cluster() -> AsyncIterator[DevCluster]:
    """Run a devcluster that serves Wordpress sites, without controllers."""
    async with DevCluster(port=None, controllers=False) as cluster:
        (body,) = yaml_documents(DEFINITION.read_text())
        await cluster.client.create("customresourcedefinitions.apiextensions.k8s.io", "", body)
        await asyncio.sleep(0)  # the CRD is served after this turn of the event loop
        yield cluster


class Process:
    """Newly started manager with only the Wordpress operator; `client` never reads a cache."""

    def __init__(self, cluster: DevCluster, fate: Fate, events: Any) -> None:
        wire, rng, metrics = FatefulWire(cluster, fate), random.Random(1), Metrics()
        transport = Transport(wire, metrics=metrics, rng=rng, user_agent="test")
        settings = {key: key.default_value() for key in WordpressOperator.declared_settings}
        manager = Manager(
            transport,
            program=PROGRAM,
            metrics=metrics,
            rng=rng,
            identity="test",
            settings=SettingValues(settings),
        )
        manager.events = events
        operator = WordpressOperator(manager)
        operator.client = self.client = LiveClient(wire, field_manager="test")
        self.reconcile = add_controller(operator, ControllerOptions()).reconciler.reconcile
        """Reconciles once; returns the result or raises the error that a controller would receive."""


class World:
    """Test world with the site `site` in a separate namespace."""

    def __init__(self, cluster: DevCluster, namespace: str) -> None:
        self.cluster = cluster
        self.api = cluster.client
        self.namespace = namespace
        self.key = ObjectKey(namespace, "site")
        self.events = RecordedEvents()
        self.passwords: set[str] = set()
        """All passwords that the operator has generated."""

    async def create(self, **spec: Any) -> None:
        """Create the namespace and the site, as a user does."""
        await self.api.create("namespaces", "", {"metadata": {"name": self.namespace}})
        await self.create_site(**spec)

    async def run(self, **spec: Any) -> None:
        """Create the site, and reconcile it until it is ready."""
        await self.create(**spec)
        await self.settle()

    async def create_site(self, **spec: Any) -> None:
        spec.setdefault("sqlrootpassword", "in-the-open")
        await self.api.create(SITES, self.namespace, {"metadata": {"name": "site"}, "spec": spec})

    async def change(self, **spec: Any) -> None:
        await self.api.patch(SITES, self.namespace, "site", {"spec": spec})

    def process(self, fate: Fate | None = None) -> Process:
        return Process(self.cluster, fate or Fate(), self.events)

    async def settle(self) -> None:
        """Reconcile until a reconcile writes nothing."""
        process = self.process()
        for _ in range(20):
            before = self.cluster.store.version
            try:
                await process.reconcile(self.key)
            except KubeError:
                pass  # the next round retries
            else:
                await self.bring_up()
                if self.cluster.store.version == before:
                    return
            finally:
                self.look()
        raise AssertionError("it does not settle")

    async def bring_up(self) -> None:
        """Do the work of the cluster's controllers: make the Deployments ready."""
        for each in self.api.list("deployments.apps", self.namespace):
            status = {**READY, "observedGeneration": each["metadata"]["generation"]}
            if each.get("status", {}).get("observedGeneration") != status["observedGeneration"]:
                name = each["metadata"]["name"]
                await self.api.patch(
                    "deployments.apps", self.namespace, name, {"status": status}, subresource="status"
                )
        for each in self.api.list("persistentvolumeclaims", self.namespace):
            if each["status"]["phase"] != "Bound":
                name, status = each["metadata"]["name"], {"phase": "Bound"}
                await self.api.patch(
                    "persistentvolumeclaims", self.namespace, name, {"status": status}, subresource="status"
                )

    def look(self) -> None:
        """Add the generated password to `passwords`."""
        secret = self.api.peek("secrets", self.namespace, SECRET)
        if secret is not None and "password" in secret["data"]:
            self.passwords.add(base64.b64decode(secret["data"]["password"]).decode())

    def site(self, name: str = "site") -> Wordpress:
        return Wordpress.model_validate(self.api.peek(SITES, self.namespace, name))

    def conditions(self, name: str = "site") -> dict[str, tuple[str, str]]:
        """Return the status and reason of each condition."""
        return {each.type: (each.status, each.reason) for each in self.site(name).status.conditions}

    def children(self) -> dict[str, Object]:
        """Return all children by kind and name, without fields that differ in each run."""
        found: dict[str, Object] = {}
        for kind in KINDS:
            for each in self.api.list(kind, self.namespace):
                found[f"{kind} {each['metadata']['name']}"] = _comparable(each)
        return found


def _comparable(obj: Object) -> Object:
    obj = copy.deepcopy(obj)
    metadata = obj["metadata"]
    owners = [
        {name: value for name, value in owner.items() if name != "uid"}
        for owner in metadata.get("ownerReferences", ())
    ]
    kept = {"labels": metadata.get("labels"), "owners": owners}
    spec: Object = obj.get("spec", {})
    for name in ("clusterIP", "clusterIPs", "volumeName"):
        spec.pop(name, None)
    for port in spec.get("ports", ()):
        port.pop("nodePort", None)
    return {"metadata": kept, "spec": spec, "keys": sorted(obj.get("data", ()))}


def site(**spec: Any) -> Wordpress:
    """Return a site called blog."""
    metadata = {"name": "blog", "namespace": "default", "uid": "u-1", "generation": 1}
    spec.setdefault("sqlrootpassword", "in-the-open")
    return Wordpress.model_validate({"metadata": metadata, "spec": spec})


def deployment(name: str, *, ready: bool) -> Deployment:
    metadata = ObjectMeta(name=name, namespace="default", generation=1)
    counts = dict.fromkeys(("readyReplicas", "availableReplicas"), int(ready))
    status = {**READY, **counts, "conditions": [{"type": "Available", "status": str(ready)}]}
    return Deployment(metadata=metadata, status=status)
