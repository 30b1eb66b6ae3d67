"""Requests: the transport's overhead over its HTTP client."""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from benchmarks.micro.benchmark import Benchmark
from benchmarks.micro.documents import sample
from manager.kube.config import ClusterConfig
from manager.kube.credentials import FixedCredentials
from manager.kube.http_wire import HttpWire
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from benchmarks.micro.benchmark import Work

ROOT = Path(__file__).parents[3]
PATH = "/apis/cache.example.com/v1/namespaces/default/memcacheds/memcached-sample"
QUERY = {"fieldManager": "operator-manager-memcached", "fieldValidation": "Strict"}
REQUESTS = 20
TOKEN = "x" * 900
"""A token as long as a ServiceAccount's."""


@contextlib.asynccontextmanager
async def server() -> AsyncIterator[str]:
    """Run a server that answers with a Memcached; yield its URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "benchmarks.micro.loopback"),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        yield f"http://127.0.0.1:{port}"
    finally:
        process.stdin.close()
        await process.wait()


@contextlib.asynccontextmanager
async def through_transport(method: str) -> AsyncIterator[Work]:
    async with server() as url:
        config = ClusterConfig(
            server=URL(url), source="benchmark", credentials=FixedCredentials(f"Bearer {TOKEN}"), tls=None
        )
        wire = HttpWire(config)
        transport = Transport(wire, metrics=Metrics(), rng=random.Random(1), user_agent="benchmark")
        body = None if method == "GET" else sample("deployment")
        query = None if method == "GET" else QUERY
        try:
            yield _several(partial(transport.request, method, PATH, query=query, body=body))
        finally:
            await wire.aclose()


@contextlib.asynccontextmanager
async def through_aiohttp(method: str) -> AsyncIterator[Work]:
    """Send a request with aiohttp, as the bare loop does."""
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }
    async with server() as url, aiohttp.ClientSession(url, headers=headers) as session:
        body = None if method == "GET" else sample("deployment")
        query = None if method == "GET" else QUERY
        extra = None if method == "GET" else {"Content-Type": "application/json"}

        async def request() -> None:
            async with session.request(method, PATH, params=query, data=body, headers=extra) as answer:
                answer.raise_for_status()
                await answer.read()

        yield _several(request)


def _several(request: Callable[[], Awaitable[object]]) -> Work:
    # The requests are sequential. Concurrent responses would share wake-ups of the loop, so that the cost of
    # each would depend on the load of the machine.
    async def work() -> None:
        for _ in range(REQUESTS):
            await request()

    return work


BENCHMARKS = tuple(
    benchmark
    for method in ("GET", "POST")
    for benchmark in (
        Benchmark(
            f"request.{method.lower()}",
            f"a {method} and its answer",
            partial(through_transport, method),
            units=REQUESTS,
            against=(f"request.{method.lower()}-aiohttp",),
        ),
        Benchmark(
            f"request.{method.lower()}-aiohttp",
            "the same with aiohttp alone",
            partial(through_aiohttp, method),
            units=REQUESTS,
        ),
    )
)
