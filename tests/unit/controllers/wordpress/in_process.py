"""A devcluster in the same process behind the manager's own client, with a point at every write.

    async with in_process_cluster("example.com_wordpresses.yaml") as cluster:
        client = live_client(InProcessWire(cluster, fate))

Nothing is cached: each read is a request, so that a test can tell in which order things happen.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from multidict import CIMultiDict

from apis.meta import PartialObjectMetadata, Resource
from devcluster import DevCluster
from devcluster.exchange import ApiRequest, ApiResponse
from manager.cache import Cache
from manager.client import Client
from manager.codegen import yaml_documents
from manager.kube.errors import ConnectionLost
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    from apis.meta import ObjectKey
    from devcluster.errors import StatusError
    from manager.kube.wire import WireRequest

R = TypeVar("R", bound=Resource)

CRDS = Path(__file__).parents[4] / "config" / "crd" / "bases"


class Died(BaseException):
    """The process ended here."""


class Fate:
    """What happens at one write, counted from 0: `lost before`, `lost after` or `died after` it was done,
    or a refusal by the server.

    Reads change nothing, so to die after one is to die after the write before.
    """

    def __init__(self, point: int = -1, blow: str = "", *, refusal: StatusError | None = None) -> None:
        self.point = point
        self.blow = "refused" if refusal else blow
        self.refusal = refusal
        self.passed: list[str] = []

    def next_blow(self, what: str) -> str:
        """What happens to this write."""
        blow = self.blow if len(self.passed) == self.point else ""
        self.passed.append(what)
        return blow


class Answer:
    """Implements `manager.kube.wire.WireResponse`."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = CIMultiDict(headers)
        self._body = body

    async def read(self) -> bytes:
        return self._body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield self._body


class InProcessWire:
    """Implements `manager.kube.wire.Wire`."""

    host = "in-process"

    def __init__(self, cluster: DevCluster, fate: Fate) -> None:
        self._cluster = cluster
        self._fate = fate

    @asynccontextmanager
    async def exchange(self, request: WireRequest) -> AsyncIterator[Answer]:
        what = f"{request.method} {request.path}"
        blow = "" if request.method == "GET" else self._fate.next_blow(what)
        _strike(blow, "before")
        if blow == "refused" and self._fate.refusal is not None:
            answer = ApiResponse.failure(self._fate.refusal)
        else:
            answer = await self._cluster.handle(self._asked(request))
        _strike(blow, "after")
        yield Answer(answer.status, {"Content-Type": answer.content_type, **answer.headers}, answer.body)

    def _asked(self, request: WireRequest) -> ApiRequest:
        url = urlsplit(request.path)
        headers = {name.lower(): value for name, value in request.headers.items()}
        return ApiRequest(
            method=request.method,
            path=unquote(url.path),
            query=parse_qs(url.query, keep_blank_values=True),
            headers={**headers, "authorization": f"Bearer {self._cluster.token}"},
            body=request.body or b"",
        )

    def abort(self) -> None:
        """There is no connection to break."""

    async def aclose(self) -> None:
        """There is no connection to close."""


class LiveClient(Client):
    """Reads from the server where the manager's client reads from its cache."""

    def __init__(self, wire: InProcessWire, *, field_manager: str) -> None:
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


def _strike(blow: str, moment: str) -> None:
    if blow == f"died {moment}":
        raise Died
    if blow == f"lost {moment}":
        raise ConnectionLost("by fate")
