from __future__ import annotations

import pytest

from apis.myapp.v1alpha1.mysrv import MySrv
from tests.unit.controllers.operator_world import Followed, OperatorWorld

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("log_lines")]

SPEC = {"name": "CloudCMP", "port": 80}


@pytest.fixture
async def world() -> OperatorWorld:
    return OperatorWorld("mysrv")


@pytest.fixture
async def mysrvs(world: OperatorWorld) -> Followed:
    found = world.kind(MySrv)
    found.listed(found.obj("mysrv-sample", spec=SPEC))
    return found


async def test_a_spec_is_taken_up_with_one_write_and_told_once(world: OperatorWorld, mysrvs: Followed):
    async with world.running():
        status = mysrvs.status("mysrv-sample")
        [ready] = status.pop("conditions")
        assert status == {"status": "Available", "observedGeneration": 1}
        assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "True", "SpecTakenUp")
        assert ready["message"] == "The spec is taken up: CloudCMP, port 80"
        assert len(world.writes()) == 1
    assert world.events.reasons("mysrv-sample") == ["SpecTakenUp"]


async def test_each_new_spec_is_taken_up_and_nothing_else_matters(world: OperatorWorld, mysrvs: Followed):
    async with world.running():
        taken_up = mysrvs.status("mysrv-sample")["conditions"][0]["lastTransitionTime"]
        mysrvs.put("mysrv-sample", labels={"a": "b"})
        await world.quiet()
        assert world.reconciles("mysrv") == 1
        mysrvs.put("mysrv-sample", spec={"name": "CloudCMP", "port": 443})
        await world.quiet()
        [ready] = mysrvs.status("mysrv-sample")["conditions"]
        assert ready["message"] == "The spec is taken up: CloudCMP, port 443"
        assert (ready["observedGeneration"], ready["lastTransitionTime"]) == (2, taken_up)
        assert (world.reconciles("mysrv"), len(world.writes())) == (2, 2)
    assert world.events.reasons("mysrv-sample") == ["SpecTakenUp", "SpecTakenUp"]


async def test_after_a_restart_nothing_is_written_and_nothing_told(world: OperatorWorld, mysrvs: Followed):
    async with world.running():
        pass
    later = OperatorWorld("mysrv")
    later.kind(MySrv).listed(*mysrvs.stored())
    async with later.running():
        assert later.reconciles("mysrv") == 1
    assert (later.events.told, later.writes()) == ([], [])


async def test_one_that_is_gone_or_going_is_left_alone(world: OperatorWorld):
    mysrvs = world.kind(MySrv)
    mysrvs.listed(
        mysrvs.obj("going", spec=SPEC, deletionTimestamp="2026-11-21T10:00:00Z", finalizers=["x/y"]),
    )
    async with world.running():
        mysrvs.put("short-lived", spec=SPEC)
        mysrvs.gone("short-lived")
        await world.quiet()
        assert world.reconciles("mysrv") == 2
        assert world.writes() == []
