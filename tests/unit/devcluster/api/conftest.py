from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs

import orjson
import pytest

from devcluster.api.server import ApiServer
from devcluster.builtin import resources
from devcluster.clock import Clock
from devcluster.http_call import ApiRequest, ApiResponse
from devcluster.kinds.registry import Registry
from devcluster.storage.store import Store

Object = dict[str, Any]

JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, **metadata: Any) -> Object:
    return {"metadata": {"name": name, **metadata}, "data": {"key": "value"}}


@dataclasses.dataclass
class Api:
    server: ApiServer

    async def ask(
        self, method: str, path: str, body: Any = None, *, media: str = JSON, accept: str = ""
    ) -> ApiResponse:
        plain, _, query = path.partition("?")
        return await self.server.handle(
            ApiRequest(
                method=method,
                path=plain,
                query=parse_qs(query, keep_blank_values=True),
                headers={"content-type": media, "accept": accept, "user-agent": "test/1"},
                body=body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body),
            )
        )

    async def expect(self, status: int, method: str, path: str, body: Any = None, **options: Any) -> Object:
        answer = await self.ask(method, path, body, **options)
        assert answer.status == status, answer.body
        return orjson.loads(answer.body)

    async def watch(self, path: str, **options: Any) -> Lines:
        answer = await self.ask("GET", path, **options)
        assert answer.status == 200, answer.body
        return Lines(answer.stream)


class Lines:
    """Reader of the events of a watch."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self._stream = stream
        self._read: list[Object] = []

    async def next(self) -> Object:
        while not self._read:
            chunk = await asyncio.wait_for(anext(self._stream), 5)
            self._read += [orjson.loads(line) for line in chunk.splitlines()]
        return self._read.pop(0)

    async def names(self, count: int) -> list[tuple[str, str]]:
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in events]

    async def ended(self) -> bool:
        try:
            await asyncio.wait_for(anext(self._stream), 5)
        except StopAsyncIteration:
            return True
        return False

    async def aclose(self) -> None:
        await self._stream.aclose()  # type: ignore[attr-defined]


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def api(store: Store) -> Api:
    rng = random.Random(1)
    clock = Clock(lambda: 1_800_000_000.0)
    registry = Registry(resources(clock=clock, rng=rng))
    return Api(ApiServer(store, registry, clock=clock, rng=rng))
