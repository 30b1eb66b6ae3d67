"""Replicas of a leader election with scripted HTTP connections, in virtual time."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from devcluster import DevCluster
from devcluster.storage import Key
from manager.election.coordinator import Leadership, LeadershipLost
from manager.election.elector import LeaderElector
from manager.election.lease import ElectionConfig, LeaseTiming
from manager.kube.errors import Fenced
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from tests.support.cluster_wire import ClusterServer
from tests.support.scripted_wire import ScriptedWire, Step

GROUP, PLURAL = "coordination.k8s.io", "leases"
PREFIX = f"/apis/{GROUP}/v1/namespaces/"
NAMESPACE = "default"
NAME = "election"
LEASES = f"{PREFIX}{NAMESPACE}/leases"
LEASE = f"{LEASES}/{NAME}"
EVERYTHING = f"{PREFIX}*"
DATA = "/api/v1/namespaces/default/configmaps/x"


class LeaseServer(ClusterServer):
    """Control plane that tests use only for Leases, in one namespace."""

    @property
    def leases(self) -> dict[str, dict[str, Any]]:
        """Return all Leases by API path."""
        found = (each.decode() for each in self.cluster.store.select(GROUP, PLURAL))
        return {f"{LEASES}/{each['metadata']['name']}": each for each in found}

    def put(self, name: str, spec: dict[str, Any], **metadata: Any) -> None:
        """Create or update a Lease as another client, without validation."""
        store, key = self.cluster.store, Key(GROUP, PLURAL, NAMESPACE, name)
        if (stored := store.get(key)) is not None:
            lease = stored.decode()
            store.update(key, {**lease, "metadata": lease["metadata"] | metadata, "spec": spec})
            return
        metadata |= {"namespace": NAMESPACE, "name": name, "uid": str(uuid.uuid4())}
        lease = {"apiVersion": f"{GROUP}/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        store.create(key, lease)

    def delete(self, name: str) -> None:
        """Delete a Lease as another client."""
        self.cluster.store.delete(Key(GROUP, PLURAL, NAMESPACE, name))


@asynccontextmanager
async def lease_server() -> AsyncIterator[LeaseServer]:
    async with DevCluster(port=None, controllers=False) as cluster:
        yield LeaseServer(cluster)


def permits(leadership: Leadership) -> bool:
    try:
        leadership.permit()
    except Fenced:
        return False
    return True


class Participant:
    """A replica in an election, with its wire, transport and configuration."""

    def __init__(self, server: LeaseServer, identity: str, clock: str = "") -> None:
        self.wire, self.metrics, rng = ScriptedWire(), Metrics(), random.Random(identity)
        server.serve(self.wire)
        self.transport = Transport(self.wire, metrics=self.metrics, rng=rng, user_agent="test")
        self.config = ElectionConfig(
            transport=self.transport,
            namespace=NAMESPACE,
            name=NAME,
            identity=identity,
            rng=rng,
            metrics=self.metrics,
            timing=LeaseTiming(clock=clock),
        )
        self.identity = identity
        self.task: asyncio.Task[None] | None = None
        self.watchdog = self.config.watchdog
        self._server = server

    def reach(self, step: Step | None = None) -> None:
        """Answer all later Lease requests with `step`; if `step` is None, let the server answer them."""
        for method in ("GET", "PUT", "POST", "DELETE"):
            self.wire.on(method, EVERYTHING, step or self._server.answer)

    async def finished(self) -> None:
        """Wait until this replica leaves the election; raise its error, if any."""
        assert self.task is not None
        try:
            await self.task
        finally:
            self.task = None

    async def lost(self) -> str:
        """Wait until this replica loses the leadership; return the reason."""
        with pytest.raises(LeadershipLost) as caught:
            await self.finished()
        return str(caught.value)

    async def kill(self) -> None:
        """End the replica without a release, as a crash would; raise its error if it has already failed."""
        if self.task is not None:
            self.task.cancel()
            with suppress(asyncio.CancelledError):
                await self.finished()


class Candidate(Participant):
    """Replica that is the leader or on standby."""

    def __init__(self, server: LeaseServer, identity: str, clock: str = "") -> None:
        super().__init__(server, identity, clock)
        self.elector = LeaderElector(self.config)

    def start(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self.elector.run())

    async def lead(self, seconds: float = 0.0) -> None:
        """Start the election, wait until this replica leads, and then wait for `seconds`."""
        self.start()
        await self.elector.elected.wait()
        await asyncio.sleep(seconds)

    @property
    def leads(self) -> bool:
        return permits(self.elector.leadership)

    @property
    def gauge(self) -> float | None:
        return self.metrics.registry.get_sample_value("leader_election_master_status", {"name": NAME})

    def renewals(self) -> int:
        return len(self.wire.sent("PUT", LEASE))


class Election:
    """Election on one server; the test adds candidates to the election."""

    def __init__(self, server: LeaseServer) -> None:
        self.server = server
        self.candidates: list[Candidate] = []

    def candidate(self, identity: str, *, clock: str = "") -> Candidate:
        self.candidates.append(Candidate(self.server, identity, clock))
        return self.candidates[-1]

    async def leader(self, identity: str = "first", *, clock: str = "", seconds: float = 0.0) -> Candidate:
        """Start a candidate; return it when it has been the leader for `seconds`."""
        candidate = self.candidate(identity, clock=clock)
        await candidate.lead(seconds)
        return candidate

    async def standby(self, identity: str = "second", *, clock: str = "") -> Candidate:
        """Start a candidate; return it when it is on standby and has seen the leader."""
        candidate = self.candidate(identity, clock=clock)
        candidate.start()
        await asyncio.sleep(0.1)
        return candidate

    @property
    def spec(self) -> dict[str, object]:
        spec: dict[str, object] = self.server.leases[LEASE]["spec"]
        return spec


@pytest.fixture
async def election() -> AsyncIterator[Election]:
    async with lease_server() as server:
        election = Election(server)
        yield election
        for candidate in election.candidates:
            await candidate.kill()
