"""Lease renewal over real connections, during other requests of the process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from manager.election.elector import LeaderElector
from manager.election.lease import ElectionConfig, LeaseTiming
from manager.kube.credentials import TokenFile
from manager.kube.errors import Fenced
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from tests.support.scripted_wire import Reply, Sent
from tests.unit.cache.objects import running
from tests.unit.election.conftest import DATA, PREFIX, LeaseServer, lease_server, permits
from tests.unit.kube.conftest import authority
from tests.unit.kube.servers import Answer, LocalServer, Request, wire_to

__all__ = ["authority"]

CONNECTIONS = 16
"""The connections of requests other than the elector's: few, so that a busy machine opens all in time."""


class Cluster:
    """Server that answers only Lease requests."""

    def __init__(self, server: LocalServer, leases: LeaseServer) -> None:
        self.server = server
        self.leases = leases
        self.token = "secret"
        self.rejected = 0
        self.others: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        server.answer = self.answer

    @property
    def renewals(self) -> int:
        return sum(request.method == "PUT" and PREFIX in request.target for request in self.server.requests)

    def answer(self, request: Request) -> Answer | asyncio.Future[Answer]:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            self.rejected += 1
            return Answer(status=401)
        path, _, query = request.target.partition("?")
        if "watch" in query:
            return Answer(status=500)
        if PREFIX not in path:
            return self.others
        sent = Sent(request.method, path, {}, request.headers, request.body, 0.0)
        return asyncio.ensure_future(self._answered(sent))

    async def _answered(self, sent: Sent) -> Answer:
        reply = await self.leases.answer(sent)
        assert isinstance(reply, Reply)
        return Answer(reply.body, reply.code)


@asynccontextmanager
async def replica(
    cluster: Cluster, authority: trustme.CA, **config: Any
) -> AsyncIterator[tuple[Transport, LeaderElector]]:
    """Run a transport, and an elector that leads and has its own connections."""
    url, rng, metrics = cluster.server.url, random.Random(1), Metrics()
    async with (
        wire_to(url, authority, connections=CONNECTIONS, **config) as wire,
        wire_to(url, authority, connections=2, **config) as lane,
    ):
        transport = Transport(wire, metrics=metrics, rng=rng, user_agent="test")
        elector = LeaderElector(
            ElectionConfig(
                transport=Transport(lane, metrics=metrics, rng=rng, user_agent="test", beside=transport),
                namespace="default",
                name="x",
                identity="me",
                rng=rng,
                metrics=metrics,
                # A short retry period makes the test short; long durations are for busy machines.
                timing=LeaseTiming(lease_duration=300.0, renew_deadline=240.0, retry_period=0.05),
            )
        )
        async with running(elector):
            await elector.elected.wait()
            yield transport, elector


@pytest.fixture
async def cluster(authority: trustme.CA) -> AsyncIterator[Cluster]:
    async with LocalServer(authority) as server, lease_server() as leases:
        yield Cluster(server, leases)


async def test_lease_renewals_continue_during_1000_unanswered_requests(
    cluster: Cluster, authority: trustme.CA
):
    async with replica(cluster, authority) as (transport, elector):
        writes = [asyncio.create_task(transport.request("PUT", DATA, body=b"{}")) for _ in range(1000)]
        await cluster.server.until(
            lambda: sum(each.target == DATA for each in cluster.server.requests) == CONNECTIONS
        )
        before = cluster.renewals
        await cluster.server.until(lambda: cluster.renewals >= before + 10)
        assert permits(elector.leadership)
        assert elector.problem is None
        assert transport.writes_in_flight == 1000
        transport.fence("enough")
        assert {type(each) for each in await asyncio.gather(*writes, return_exceptions=True)} == {Fenced}


async def test_elector_keeps_its_lease_when_the_token_is_replaced_after_many_rejections(
    cluster: Cluster, authority: trustme.CA, tmp_path: Path
):
    file = tmp_path / "token"
    file.write_text(cluster.token)
    async with replica(cluster, authority, credentials=TokenFile(file, label="token")) as (_, elector):
        cluster.token = "second"
        await cluster.server.until(lambda: cluster.rejected >= 10)
        file.write_text(cluster.token)
        before = cluster.rejected
        assert elector._lock.taken
        deadlines = {elector._lock.deadline}
        while len(deadlines) <= 3:  # three renewals
            assert permits(elector.leadership), elector.problem
            await asyncio.sleep(0.01)
            deadlines.add(elector._lock.deadline)
    assert cluster.rejected <= before + 10, "the client reads the token file after each rejection"
