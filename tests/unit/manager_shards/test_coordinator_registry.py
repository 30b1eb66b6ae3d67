"""Registry of replicas: each replica finds the others by their Leases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import orjson
import pytest

from manager.election.lease import Lease, Leases
from manager.election.lease_watch import LeaseWatcher
from manager.util.clock import monotonic as now
from manager_shards.coordinator import MEMBER, ReplicaRegistry
from manager_tools.simulation.loop import freeze
from tests.support.scripted_wire import (
    Delayed,
    LostAfter,
    LostBefore,
    Reply,
    Sent,
    Stall,
    Step,
    Unreached,
)
from tests.unit.election.conftest import EVERYTHING, NAMESPACE, LeaseServer, Participant, lease_server

pytestmark = pytest.mark.virtual_time
LABEL = "example.com/lease"


class Replica(Participant):
    """A replica with its own HTTP connection."""

    def __init__(self, server: LeaseServer, identity: str, *, cleans: bool = False) -> None:
        super().__init__(server, identity)
        group = Leases(self.transport, namespace=NAMESPACE, label=LABEL)
        self.watcher = LeaseWatcher(self.config, group)
        self.registry = ReplicaRegistry(self.config, group, self.watcher, count=16)
        self.cleans = cleans
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.watcher.run())
            group.create_task(self.registry.run(cleans=lambda: self.cleans))

    @property
    def members(self) -> str:
        return " ".join(sorted(self.registry.members))

    async def stop(self) -> None:
        await self.kill()
        await self.registry.leave(within=5.0)


class Program:
    """Simulated program with several replicas on one Lease server."""

    def __init__(self, server: LeaseServer) -> None:
        self.server = server
        self.replicas: list[Replica] = []

    async def start(self, *identities: str, cleans: bool = False) -> list[Replica]:
        started = [Replica(self.server, identity, cleans=cleans) for identity in identities]
        self.replicas += started
        await asyncio.sleep(0.1)
        return started

    @property
    def leases(self) -> list[str]:
        return sorted(lease["spec"]["holderIdentity"] for lease in self.server.leases.values())


@pytest.fixture
async def program() -> AsyncIterator[Program]:
    async with lease_server() as server:
        program = Program(server)
        yield program
        for replica in program.replicas:
            await replica.kill()


async def test_registry_removes_stopped_replicas_immediately_and_killed_replicas_later(program: Program):
    a, b = await program.start("a", "b", cleans=True)
    (c,) = await program.start("c")
    assert a.members == b.members == c.members == "a b c"
    lease = next(iter(program.server.leases.values()))
    assert lease["metadata"]["labels"] == {LABEL: f"{MEMBER}-16"}
    assert lease["spec"]["leaseDurationSeconds"] == 15
    await c.stop()
    await asyncio.sleep(0.01)
    assert a.members == b.members == "a b"
    assert program.leases == ["a", "b"]
    await asyncio.sleep(30)
    await b.kill()
    silent = b.wire.sent("PUT")[-1].at
    assert a.registry.changes_at() <= silent + 15.1
    await asyncio.sleep(silent + 14.9 - now())
    assert a.members == "a b"
    await asyncio.sleep(0.2)
    assert a.members == "a"
    await asyncio.sleep(2.1)
    assert program.leases == ["a"]
    assert [view.holder for view in a.watcher] == ["a"], "the watcher forgets the killed replica"


async def test_replica_stays_registered_while_it_slowly_deletes_many_expired_leases(program: Program):
    (a,) = await program.start("a", cleans=True)
    others = await program.start(*(f"gone-{number}" for number in range(12)))
    for each in others:
        await each.kill()
    a.wire.on("DELETE", EVERYTHING, lambda _: Delayed(1.5, program.server.answer))
    for _ in range(120):
        await asyncio.sleep(1)
        assert "a" in a.members.split()
    assert program.leases == ["a"]


@pytest.mark.parametrize("cleans", [True, False])
async def test_registry_deletes_expired_leases_of_its_replicas_unless_cleaning_is_disabled(
    program: Program, cleans: bool
):
    (a,) = await program.start("a", cleans=cleans)
    (b,) = await program.start("b")
    await b.kill()
    spec = {"holderIdentity": "them", "leaseDurationSeconds": 1}
    program.server.put("theirs", spec, labels={LABEL: f"{MEMBER}-16"})
    await asyncio.sleep(1)
    assert a.members == "a b"
    await asyncio.sleep(120)
    assert a.members == "a"
    assert program.leases == (["a", "them"] if cleans else ["a", "b", "them"])


async def test_registry_lists_all_replicas_even_if_one_lease_is_deeply_nested(program: Program):
    """Serve also a Lease of 5 MB, and no watch events."""
    (a,) = await program.start("a")
    b = Replica(program.server, "b")
    program.replicas.append(b)
    nested = b'{"metadata":{"name":"x","managedFields":[%s%s]},"spec":{}}' % (b"[" * 1500, b"]" * 1500)
    filled = b'{"metadata":{"name":"y","annotations":{"a":"%s"}},"spec":{}}' % (b"x" * 5_000_000)

    def answer(sent: Sent) -> Step:
        if "labelSelector" not in sent.query or "watch" in sent.query:
            return Stall() if "watch" in sent.query else program.server.answer(sent)
        found = orjson.dumps(list(program.server.leases.values()))[1:-1]
        return Reply(200, b'{"metadata":{},"items":[' + b",".join((nested, filled, found)) + b"]}")

    b.wire.on("GET", EVERYTHING, answer)
    await asyncio.sleep(5)
    assert b.members == "a b"
    assert b.watcher.problem is None
    await a.stop()


async def test_registry_removes_a_disconnected_replica_until_it_renews_its_lease_again(program: Program):
    a, b = await program.start("a", "b")
    await asyncio.sleep(30)
    renewed = b.wire.sent("PUT")[-1].at
    b.reach(Unreached())
    await asyncio.sleep(renewed + 10.1 - now())
    assert "b" not in b.members
    assert a.members == "a b"
    await asyncio.sleep(20)
    assert a.members == "a"
    b.reach()
    await asyncio.sleep(10)
    assert a.members == b.members == "a b"
    [path] = [path for path, lease in program.server.leases.items() if lease["spec"]["holderIdentity"] == "b"]
    program.server.delete(path.rpartition("/")[2])
    await asyncio.sleep(0.01)
    assert a.members == "a"
    await asyncio.sleep(6)
    assert a.members == b.members == "a b"


async def test_registry_of_a_paused_process_is_empty_on_resume_until_replicas_renew_expired_leases(
    program: Program,
):
    a, _ = await program.start("a", "b")
    await asyncio.sleep(30)
    freeze(20.0)
    assert a.members == ""
    await asyncio.sleep(5)
    assert a.members == "a b"


@pytest.mark.parametrize(
    "fault", [lambda: None, LostBefore, LostAfter, Stall, Unreached, lambda: Reply.status(500)]
)
async def test_registry_keeps_all_replicas_even_if_one_lease_renewal_fails(
    program: Program, fault: Callable[..., Step | None]
):
    a, b = await program.start("a", "b")
    await asyncio.sleep(30)
    before, step = len(a.wire.requests), fault(program.server.answer) if fault is LostAfter else fault()
    if step is not None:
        b.wire.on("PUT", EVERYTHING, step, program.server.answer)
    for _ in range(120):
        await asyncio.sleep(0.5)
        assert a.members == b.members == "a b"
    assert b.registry.problem is None
    assert 30 <= len(a.wire.requests) - before <= 34, "only renewals"


async def test_registry_keeps_a_renewing_replica_even_if_lease_resource_versions_decrease(program: Program):
    a, *_ = await program.start("a", "b", "c")
    await asyncio.sleep(30)
    last = next(each for each in program.server.leases.values() if each["spec"]["holderIdentity"] == "b")
    lost = Lease({**last["metadata"], "resourceVersion": "1000000000"}, {**last["spec"], "renewTime": "lost"})
    a.watcher._observe(lost, gone=False)
    for _ in range(120):
        await asyncio.sleep(0.5)
        assert a.members == "a b c"


async def test_replica_stop_takes_at_most_5_s_when_the_deletion_of_its_lease_hangs(program: Program):
    a, b = await program.start("a", "b")
    b.wire.on("DELETE", EVERYTHING, Stall())
    started = now()
    await b.stop()
    assert now() - started <= 5.1
    await asyncio.sleep(16)
    assert a.members == "a"


async def test_registry_limits_a_huge_lease_duration_to_a_minute(program: Program):
    (a,) = await program.start("a", cleans=True)
    spec = {"holderIdentity": "ghost", "leaseDurationSeconds": 2**31 - 1}
    name = a.registry._lease_of("ghost")
    program.server.put(name, spec, labels={LABEL: f"{MEMBER}-16"})
    await asyncio.sleep(50)
    assert a.members == "a ghost"
    assert a.registry.changes_at() <= now() + 15
    await asyncio.sleep(15)
    assert a.members == "a"
    await asyncio.sleep(20)
    assert program.leases == ["a"]
