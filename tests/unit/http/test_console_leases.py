"""What the Leases of replicas that share the work say of whose an object is."""

from __future__ import annotations

import asyncio
import random

import pytest

from manager.console.owners import Leases, Owners, Shares, owners_told
from manager.election.guard import Leadership
from manager.explain.telling import whose
from manager.kube.transport import Transport
from manager.metrics import Metrics
from manager.shards.owned import OwnedShards
from manager.shards.ranges import Ranges
from tests.support.scripted_wire import Reply, ScriptedWire
from tests.unit.election.conftest import LEASES, NAME, NAMESPACE
from tests.unit.election.program import COUNT, Program, program

__all__ = ["program"]

pytestmark = pytest.mark.virtual_time

UID = "1c9dd0a4-6b4f-4d3c-8f9a-0e7c2b1d4e5f"


def leases_by(wire: ScriptedWire) -> Leases:
    transport = Transport(wire, metrics=Metrics(), rng=random.Random(1), user_agent="test")
    return Leases(transport, namespace=NAMESPACE, name=NAME)


@pytest.fixture
def leases(program: Program) -> Leases:
    wire = ScriptedWire()
    program.server.serve(wire)
    return leases_by(wire)


async def read(leases: Leases) -> Shares:
    shares = await leases.read()
    assert shares is not None
    return shares


async def test_leases_read_names_the_holder_of_each_range(program: Program, leases: Leases):
    replicas = await program.start("a", "b", "c")
    shares = await read(leases)
    assert len(shares.ranges) == COUNT
    for replica in replicas:
        mine = {number for number, held in enumerate(shares.ranges) if held.holder == replica.identity}
        assert mine == replica.permitted
    assert {each.holder for each in shares.members} == {"a", "b", "c"}
    assert not any(each.silent for each in (*shares.ranges, *shares.members))


async def test_leases_read_calls_a_crashed_replica_silent_until_its_ranges_move(
    program: Program, leases: Leases
):
    (a,) = await program.start("a")
    await a.kill()
    assert {(held.holder, held.silent) for held in (await read(leases)).ranges} == {("a", False)}
    await asyncio.sleep(16)
    shares = await read(leases)
    assert {(held.holder, held.silent) for held in (*shares.ranges, *shares.members)} == {("a", True)}
    [told] = owners_told(shares, {"foo": False}, UID)
    assert whose(told).startswith(f"range 0 of {COUNT}, which a has renewed last 1")
    await program.start("b")
    await asyncio.sleep(16)
    assert {(held.holder, held.silent) for held in (await read(leases)).ranges} == {("b", False)}


async def test_ranges_that_were_given_back_are_nobodys(program: Program, leases: Leases):
    (a,) = await program.start("a")
    await a.stop()
    shares = await read(leases)
    assert {(held.holder, held.silent) for held in shares.ranges} == {("", False)}
    assert not shares.members


async def test_leases_read_returns_none_without_shards(program: Program, leases: Leases):
    assert await leases.read() is None
    await program.lead("a")
    assert await leases.read() is None


async def test_an_object_is_in_the_range_by_which_replicas_are_chosen(program: Program, leases: Leases):
    await program.start("a", "b")
    shares = await read(leases)
    shared, first = owners_told(shares, {"foo": True, "pet": False}, UID)
    number = Ranges.of(COUNT, ()).number_of(UID)
    assert (shared["controller"], shared["range"], shared["of"]) == ("foo", number, COUNT)
    assert shared["holder"] == shares.ranges[number].holder
    assert whose(shared) == f"range {number} of {COUNT}, which {shared['holder']} holds"
    # What is not shared out is the first range's, wherever the UID is.
    assert (first["range"], first["holder"]) == (0, shares.ranges[0].holder)
    assert whose({**shared, "holder": ""}) == f"range {number} of {COUNT}, which nobody holds"


async def test_a_replica_knows_what_is_its_own_and_reads_the_leases_once_for_all_who_look(program: Program):
    wire = ScriptedWire()
    program.server.serve(wire)
    (a,) = await program.start("a")
    owned = OwnedShards(COUNT, Metrics())
    owners = Owners(leases_by(wire), owned, {"foo": True, "pet": False})
    number = owners.number_of("foo", UID)
    assert number == Ranges.of(COUNT, ()).number_of(UID)
    assert (owners.number_of("pet", UID), owners.number_of("everywhere", UID)) == (0, None)
    told = await asyncio.gather(*(owners.told("foo", number, may=True) for _ in range(50)), owners.replicas())
    assert [(each["holder"], each["here"]) for each in told[:-1]] == [(a.identity, False)] * 50
    assert told[-1]["rows"][0]["numbers"] == f"0-{COUNT - 1}"
    assert len(wire.sent("GET", LEASES)) == 1
    owned.begin(number, Leadership())
    assert (await owners.told("foo", number, may=True))["here"] is True
    assert [owners.is_ours("foo", uid) for uid in (UID, None)] == [True, False]
    assert [owners.is_ours(name, UID) for name in ("pet", "everywhere")] == [False, True]
    await asyncio.sleep(2.5)
    await owners.replicas()
    assert len(wire.sent("GET", LEASES)) == 2


async def test_owners_hide_the_holder_and_send_no_request_without_the_right():
    wire = ScriptedWire()
    told = await Owners(leases_by(wire), OwnedShards(4, Metrics()), {"foo": True}).told("foo", 3, may=False)
    assert (told["range"], told["holder"]) == (3, None)
    assert whose(told) == "range 3 of 4; who holds it is not known: you may not get its lease"
    assert not wire.requests


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Reply.status(403, "Forbidden", "no right to leases"), "the leases cannot be read: "),
        (Reply.json({"metadata": {}, "items": []}), "the leases do not say that there are 4 ranges"),
        (Reply.json({"metadata": {}, "items": [5]}), "the leases cannot be read: "),
    ],
)
async def test_owners_report_a_problem_and_no_holder_when_leases_cannot_be_read(answer: Reply, said: str):
    wire = ScriptedWire()
    wire.on("GET", LEASES, answer)
    owners = Owners(leases_by(wire), OwnedShards(4, Metrics()), {"foo": True})
    told = await owners.told("foo", 3, may=True)
    assert told["holder"] is None
    assert told["problem"].startswith(said)
    assert (await owners.replicas())["problem"] == told["problem"]


def lease(number: int, **spec: object) -> dict[str, object]:
    metadata = {
        "name": f"{NAME}-{number}" if number else NAME,
        "labels": {f"{NAME}/lease": "range"},
        "annotations": {} if number else {f"{NAME}/shards": "128"},
    }
    return {"metadata": metadata, "spec": spec}


async def test_owners_list_at_most_64_replicas():
    wire = ScriptedWire()
    items = [lease(number, holderIdentity=f"replica-{number}", renewTime="whenever") for number in range(128)]
    wire.on("GET", LEASES, Reply.json({"metadata": {}, "items": items}))
    told = await Owners(leases_by(wire), OwnedShards(128, Metrics()), {}).replicas()
    assert (len(told["rows"]), told["more"]) == (64, 64)
    assert {row["renewed"] for row in told["rows"]} == {""}
    # Whoever wrote that, it has expired at no time that anybody could name.
    assert not any(row["silent"] for row in told["rows"])


async def test_a_lease_that_somebody_else_made_under_a_ranges_name_is_nobodys():
    wire = ScriptedWire()
    foreign = {**lease(1, holderIdentity="x"), "metadata": {"name": f"{NAME}-1", "labels": {}}}
    wire.on("GET", LEASES, Reply.json({"metadata": {}, "items": [lease(0, holderIdentity="a"), foreign]}))
    shares = await read(leases_by(wire))
    assert [held.holder for held in shares.ranges[:3]] == ["a", "", ""]
