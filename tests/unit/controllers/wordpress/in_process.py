"""A devcluster in the same process behind the manager's own client, with a point at every write.

    async with in_process_cluster("example.com_wordpresses.yaml") as cluster:
        client = LiveClient(FatedWire(cluster, fate), field_manager="test")

Nothing is cached: each read is a request, so that a test can tell in which order things happen.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit

from devcluster import DevCluster
from manager.api import PartialObjectMetadata, Resource
from manager.cache import Cache
from manager.client import Client
from manager.codegen import yaml_documents
from manager.kube.errors import ConnectionLost
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.metrics import Metrics
from manager.testing import LocalWire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from devcluster.exchange import ApiResponse
    from manager.api import ObjectKey
    from manager.kube.wire import Wire, WireRequest
    from tests.unit.controllers.fate import Fate

R = TypeVar("R", bound=Resource)

CRDS = Path(__file__).parents[4] / "config" / "crd" / "bases"


class FatedWire(LocalWire):
    """A wire on which every write is a point of `fate`.

    Reads change nothing, so to die after one is to die after the write before.
    """

    def __init__(self, cluster: DevCluster, fate: Fate) -> None:
        super().__init__(cluster)
        self._fate = fate

    async def answer(self, request: WireRequest) -> ApiResponse:
        if request.method == "GET":
            return await super().answer(request)
        point = f"{request.method} {unquote(urlsplit(request.path).path)}"
        ask = partial(super().answer, request)
        answered: ApiResponse = await self._fate.pass_through(point, ask, ConnectionLost("by fate"))
        return answered


class LiveClient(Client):
    """Reads from the server where the manager's client reads from its cache."""

    def __init__(self, wire: Wire, *, field_manager: str) -> None:
        metrics, rng = Metrics(), random.Random(1)
        transport = Transport(wire, metrics=metrics, rng=rng, user_agent="test")
        mapper = RestMapper(transport)
        cache = Cache(transport, mapper, field_manager=field_manager, metrics=metrics, rng=rng)
        super().__init__(transport, mapper, cache, field_manager=field_manager)
        self.metadata = LiveMetadata(self)  # type: ignore[assignment] # its one method is all that is used
        self.stale: dict[ObjectKey, Resource] = {}
        """What a cache would still show of objects of these keys."""

    async def find(self, kind: type[R], key: ObjectKey) -> R | None:
        known = self.stale.get(key)
        return known if isinstance(known, kind) else await self.uncached.find(kind, key)


class LiveMetadata:
    """As `Client.metadata`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def find(self, kind: type[Resource], key: ObjectKey) -> PartialObjectMetadata | None:
        found = await self._client.uncached.find(kind, key)
        return None if found is None else PartialObjectMetadata(metadata=found.metadata)


@asynccontextmanager
async def in_process_cluster(*definitions: str) -> AsyncIterator[DevCluster]:
    """A devcluster that serves these definitions and in which nothing happens by itself."""
    async with DevCluster(port=None, controllers=False) as cluster:
        for name in definitions:
            (body,) = yaml_documents((CRDS / name).read_text())
            await cluster.client.create("customresourcedefinitions.apiextensions.k8s.io", "", body)
        await asyncio.sleep(0)  # then they are served
        yield cluster
