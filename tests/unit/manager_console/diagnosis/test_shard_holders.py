"""The replica that owns an object, as the Leases of the shards show it."""

from __future__ import annotations

import asyncio

import pytest

from manager.election.coordinator import Leadership
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from manager_console.diagnosis.explanation import owner_text
from manager_console.diagnosis.shard_holders import Holders, ShardHolders, ShardLeases
from manager_shards.owned import OwnedShards
from manager_shards.shard_set import ShardSet
from tests.support.scripted_wire import Reply, ScriptedWire
from tests.unit.election.conftest import LEASES, NAME, NAMESPACE
from tests.unit.election.program import COUNT, Program, program

__all__ = ["program"]

pytestmark = pytest.mark.virtual_time

UID = "1c9dd0a4-6b4f-4d3c-8f9a-0e7c2b1d4e5f"


@pytest.fixture
async def leases(transport: Transport) -> ShardLeases:
    return ShardLeases(transport, namespace=NAMESPACE, name=NAME)


async def read(leases: ShardLeases) -> Holders:
    holders = await leases.read()
    assert holders is not None
    return holders


def named(holders: Holders) -> set[tuple[str, bool]]:
    """Return the holder of each shard, with True if the holder stopped renewing its Leases."""
    return {(held.name, held.silent) for held in holders.shards}


async def test_shard_lease_reader_returns_each_shard_holder_and_whether_it_stopped_renewing(
    program: Program, wire: ScriptedWire, leases: ShardLeases
):
    program.server.serve(wire)
    assert await leases.read() is None, "there are no shards"
    a, b = await program.start("a", "b")
    holders = await read(leases)
    assert len(holders.shards) == COUNT
    for replica in (a, b):
        mine = {number for number, held in enumerate(holders.shards) if held.name == replica.identity}
        assert mine == replica.permitted
    assert {(each.name, each.silent) for each in holders.replicas} == {("a", False), ("b", False)}
    shared, first = (holders.owner("foo", UID, shared_out=each) for each in (True, False))
    number = ShardSet.of(COUNT, ()).number_of(UID)
    assert (shared.controller, shared.shard, shared.shards) == ("foo", number, COUNT)
    assert owner_text(shared) == f"shard {number} of {COUNT}, which {holders.shards[number].name} holds"
    # An object of a controller without shards belongs to shard 0.
    assert (first.shard, first.holder) == (0, holders.shards[0].name)
    shared.holder = ""
    assert owner_text(shared) == f"shard {number} of {COUNT}, which no replica holds"
    await b.stop()
    await asyncio.sleep(5)
    await a.kill()
    assert named(await read(leases)) == {("a", False)}
    await asyncio.sleep(16)
    holders = await read(leases)
    assert named(holders) == {("a", True)}
    assert {(each.name, each.silent) for each in holders.replicas} == {("a", True)}
    owner = holders.owner("foo", UID, shared_out=False)
    assert owner_text(owner).startswith(f"shard 0 of {COUNT}, which a has renewed last 1")
    (c,) = await program.start("c")
    await asyncio.sleep(16)
    assert named(await read(leases)) == {("c", False)}
    await c.stop()
    holders = await read(leases)
    assert (named(holders), holders.replicas) == ({("", False)}, [])
    await program.lead("a")
    assert await leases.read() is None


async def test_shard_holders_class_reads_the_leases_once_when_many_pages_need_them(
    program: Program, wire: ScriptedWire, leases: ShardLeases
):
    program.server.serve(wire)
    (a,) = await program.start("a")
    owned = OwnedShards(COUNT, Metrics())
    holders = ShardHolders(leases, owned, {"foo": True, "pet": False})
    shard = holders.shard_of("foo", UID)
    assert shard == ShardSet.of(COUNT, ()).number_of(UID)
    assert (holders.shard_of("pet", UID), holders.shard_of("everywhere", UID)) == (0, None)
    hidden = await holders.owner("foo", shard, may_know=False)
    assert owner_text(hidden).endswith("its holder is not known: you may not get its lease")
    assert not wire.requests
    looks = (holders.owner("foo", shard, may_know=True) for _ in range(50))
    owners, replicas = await asyncio.gather(asyncio.gather(*looks), holders.replicas())
    assert [(each.holder, each.here) for each in owners] == [(a.identity, False)] * 50
    assert replicas["rows"][0]["numbers"] == f"0-{COUNT - 1}"
    assert len(wire.sent("GET", LEASES)) == 1
    owned.begin(shard, Leadership())
    assert (await holders.owner("foo", shard, may_know=True)).here is True
    assert [holders.is_ours("foo", uid) for uid in (UID, None)] == [True, False]
    assert [holders.is_ours(name, UID) for name in ("pet", "everywhere")] == [False, True]
    await asyncio.sleep(2.5)
    await holders.replicas()
    assert len(wire.sent("GET", LEASES)) == 2


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Reply.status(403, "Forbidden", "no right to leases"), "the leases cannot be read: "),
        (Reply.json({"metadata": {}, "items": []}), "the leases do not say that there are 4 shards"),
        (Reply.json({"metadata": {}, "items": [5]}), "the leases cannot be read: "),
    ],
)
async def test_shard_holders_class_reports_a_problem_when_it_cannot_read_the_leases(
    wire: ScriptedWire, leases: ShardLeases, answer: Reply, said: str
):
    wire.on("GET", LEASES, answer)
    holders = ShardHolders(leases, OwnedShards(4, Metrics()), {"foo": True})
    owner = await holders.owner("foo", 3, may_know=True)
    assert owner.holder is None
    assert owner.problem.startswith(said)
    assert (await holders.replicas())["problem"] == owner.problem


def lease(number: int, **spec: object) -> dict[str, object]:
    metadata = {
        "name": f"{NAME}-{number}" if number else NAME,
        "labels": {f"{NAME}/lease": "shard"},
        "annotations": {} if number else {f"{NAME}/shards": "128"},
    }
    return {"metadata": metadata, "spec": spec}


async def test_shard_holders_class_lists_at_most_64_replicas(wire: ScriptedWire, leases: ShardLeases):
    items = [lease(number, holderIdentity=f"replica-{number}", renewTime="whenever") for number in range(128)]
    wire.on("GET", LEASES, Reply.json({"metadata": {}, "items": items}))
    told = await ShardHolders(leases, OwnedShards(128, Metrics()), {}).replicas()
    assert (len(told["rows"]), told["more"]) == (64, 64)
    assert {row["renewed"] for row in told["rows"]} == {""}
    # A Lease with an invalid time does not count as expired.
    assert not any(row["silent"] for row in told["rows"])


async def test_shard_lease_reader_ignores_a_lease_without_the_shard_label(
    wire: ScriptedWire, leases: ShardLeases
):
    foreign = {**lease(1, holderIdentity="x"), "metadata": {"name": f"{NAME}-1", "labels": {}}}
    wire.on("GET", LEASES, Reply.json({"metadata": {}, "items": [lease(0, holderIdentity="a"), foreign]}))
    holders = await read(leases)
    assert [held.name for held in holders.shards[:3]] == ["a", "", ""]
