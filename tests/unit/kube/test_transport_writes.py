from __future__ import annotations

import asyncio
import contextvars
import random
from contextlib import nullcontext

import pytest

from manager.kube.errors import ConnectionLost, Fenced
from manager.kube.transport import Transport, writes_beside_work, writes_need
from manager.telemetry.metrics import Metrics
from tests.support.scripted_wire import Delayed, LostBefore, Reply, ScriptedWire

pytestmark = pytest.mark.virtual_time

PATH = "/api/v1/namespaces/default/configmaps/x"


@pytest.fixture
async def wire() -> ScriptedWire:
    wire = ScriptedWire()
    for method in ("GET", "PUT"):
        wire.on(method, PATH, Reply())
    return wire


async def test_transport_refuses_writes_after_the_time_given_to_fence_at(
    transport: Transport, wire: ScriptedWire
):
    transport.fence_at(10.0)
    await asyncio.sleep(9.9)
    await transport.request("PUT", PATH)
    await asyncio.sleep(0.1)
    with pytest.raises(Fenced, match="not renewed in time"):
        await transport.request("PUT", PATH)
    assert transport.fenced == "the right to write was not renewed in time"
    assert len(wire.sent("PUT")) == 1


async def test_reads_go_on_after_the_right_to_write_has_run_out(transport: Transport):
    transport.fence_at(0.0)
    assert await transport.request("GET", PATH) == b""


async def test_the_right_to_write_can_be_renewed_and_made_unlimited(transport: Transport):
    transport.fence_at(10.0)
    transport.fence_at(20.0)
    await asyncio.sleep(15)
    await transport.request("PUT", PATH)
    transport.fence_at(None)
    await asyncio.sleep(100)
    await transport.request("PUT", PATH)
    assert transport.fenced is None


async def test_renewing_the_right_to_write_does_not_undo_a_fence(transport: Transport):
    transport.fence("another one leads")
    transport.fence_at(None)
    with pytest.raises(Fenced, match="another one leads"):
        await transport.request("PUT", PATH)


async def test_transports_beside_each_other_are_fenced_together(transport: Transport, wire: ScriptedWire):
    other = ScriptedWire()
    other.on("PUT", PATH, Reply())
    lane = Transport(other, metrics=Metrics(), rng=random.Random(1), user_agent="test", beside=transport)
    await lane.request("PUT", PATH)
    lane.fence_at(0.0)
    with pytest.raises(Fenced, match="not renewed in time"):
        await transport.request("PUT", PATH)
    lane.fence_at(None)
    lane.fence("another one leads")
    for each in (transport, lane):
        with pytest.raises(Fenced, match="another one leads"):
            await each.request("PUT", PATH)
    assert (wire.aborts, other.aborts) == (1, 1)
    assert (len(wire.sent("PUT")), len(other.sent("PUT"))) == (0, 1)


async def test_transport_end_work_refuses_all_writes_except_those_beside_work(
    transport: Transport, wire: ScriptedWire
):
    beside = contextvars.copy_context()
    beside.run(writes_beside_work)
    transport.end_work("the lease is given back")
    with pytest.raises(Fenced, match="the lease is given back"):
        await transport.request("PUT", PATH)
    assert await transport.request("GET", PATH) == b""
    await asyncio.create_task(transport.request("PUT", PATH), context=beside)
    assert (len(wire.sent("PUT")), wire.aborts) == (1, 0)


@pytest.mark.parametrize("is_beside", [False, True])
async def test_a_write_of_the_work_that_is_in_flight_when_that_ends_is_dropped(
    transport: Transport, wire: ScriptedWire, is_beside: bool
):
    wire.on("PUT", PATH, Delayed(1.0, Reply()))
    context = contextvars.copy_context()
    context.run(writes_beside_work, is_beside)
    writing = asyncio.create_task(transport.request("PUT", PATH), context=context)
    await asyncio.sleep(0.5)
    transport.end_work("the lease is given back")
    with nullcontext() if is_beside else pytest.raises(Fenced, match="the lease is given back"):
        await writing
    assert wire.aborts == (0 if is_beside else 1)


async def test_writes_in_flight_are_counted_until_they_end_and_reads_are_not(
    transport: Transport, wire: ScriptedWire
):
    wire.on("PUT", PATH, Delayed(1.0, Reply()), Delayed(2.0, LostBefore()))
    wire.on("GET", PATH, Delayed(5.0, Reply()))
    assert transport.writes_in_flight == 0
    async with asyncio.TaskGroup() as group:
        group.create_task(transport.request("PUT", PATH))
        failing = group.create_task(_fails(transport))
        group.create_task(transport.request("GET", PATH))
        await asyncio.sleep(0.5)
        assert transport.writes_in_flight == 2
        await asyncio.sleep(1.0)
        assert transport.writes_in_flight == 1
        await failing
        assert transport.writes_in_flight == 0


async def _fails(transport: Transport) -> None:
    with pytest.raises(ConnectionLost):
        await transport.request("PUT", PATH)


class Term:
    """Write permit of its own, as the holder of a shard has it."""

    def __init__(self) -> None:
        self.over = False

    def permit(self) -> None:
        if self.over:
            raise Fenced("the range is another's")


async def test_a_write_needs_what_it_was_begun_under_and_no_other_write_does(
    transport: Transport, wire: ScriptedWire
):
    ours, others = Term(), Term()
    others.over = True
    with writes_need(others.permit):
        with pytest.raises(Fenced, match="the range is another's"):
            await transport.request("PUT", PATH)
        assert await transport.request("GET", PATH) == b""
        with writes_need(ours.permit):
            await transport.request("PUT", PATH)
    await transport.request("PUT", PATH)
    assert len(wire.sent("PUT")) == 2


async def test_transport_asks_the_permit_of_a_write_before_each_attempt(
    transport: Transport, wire: ScriptedWire
):
    term = Term()
    wire.on("PUT", PATH, Reply.status(429, "TooManyRequests", retry_after=5), Reply())
    with writes_need(term.permit):
        writing = asyncio.create_task(transport.request("PUT", PATH))
    await asyncio.sleep(1)
    term.over = True
    with pytest.raises(Fenced, match="the range is another's"):
        await writing
    assert len(wire.sent("PUT")) == 1


async def test_a_task_that_a_reconcile_has_left_behind_needs_what_the_reconcile_did(transport: Transport):
    term = Term()

    async def later() -> None:
        await asyncio.sleep(10)
        await transport.request("PUT", PATH)

    with writes_need(term.permit):
        left = asyncio.create_task(later())
    term.over = True
    with pytest.raises(Fenced, match="the range is another's"):
        await left


async def test_the_fence_of_the_process_holds_whatever_a_write_needs(transport: Transport):
    transport.fence("another one leads")
    with writes_need(Term().permit), pytest.raises(Fenced, match="another one leads"):
        await transport.request("PUT", PATH)
