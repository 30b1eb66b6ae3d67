"""Timers: methods that the operator calls periodically."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from typing import ClassVar

import pytest

from manager import Context, ObjectKey, Operator, Setting, TerminalError, daemon, every
from manager.settings import SettingsError
from manager_console.diagnosis.explanation import controller_report, next_run
from manager_tools.testing import operated
from tests.unit.conftest import LogLines
from tests.unit.operator.greetings import Greeting, greeting

pytestmark = pytest.mark.virtual_time


class Ticking(Operator[Greeting]):
    """Operator that records the calls of its timers."""

    name = "ticking"
    pace = Setting("greeting-pace", float, default="100", description="how often")
    times: ClassVar[dict[str, list[float]]]
    busy: ClassVar[set[str]]
    twice: ClassVar[set[str]]
    failing: ClassVar[int]

    def setup(self) -> None:
        type(self).times, type(self).busy, type(self).twice, type(self).failing = {}, set(), set(), 0

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        await self.at_work(greeting.metadata.name, "reconcile")

    @every(30)
    async def refresh(self, greeting: Greeting, ctx: Context) -> None:
        await self.at_work(greeting.metadata.name, "refresh")
        if self.failing:
            type(self).failing -= 1
            raise LookupError("not yet")
        greeting.status.text = str(len(self.times[f"refresh {greeting.metadata.name}"]))

    @every(pace)
    async def look_around(self) -> None:
        await self.at_work("", "look")
        if len(self.times["look "]) == 2:
            raise SystemExit("nothing to see")

    async def at_work(self, name: str, what: str) -> None:
        """Record the start time, and whether another call for the object is running; run for 0.5 s."""
        self.twice.update(self.busy & {name})
        self.busy.add(name)
        self.times.setdefault(f"{what} {name}", []).append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.5)
        self.busy.discard(name)


def gaps(times: list[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise(times)]


async def test_timer_runs_periodically_and_never_during_the_reconcile_of_its_object():
    async with operated(Ticking, objects=[greeting("a"), greeting("b")]) as world:
        obj = await world.get(Greeting, "a")
        rng, end = random.Random(1), asyncio.get_running_loop().time() + 1500
        while asyncio.get_running_loop().time() < end:
            await asyncio.sleep(rng.uniform(0, 20))
            obj = await world.update(obj, lambda it: setattr(it.spec, "name", f"{rng.random()}"))
        assert not Ticking.twice
        for name in ("a", "b"):
            found = gaps(Ticking.times[f"refresh {name}"])
            assert 45 < len(found) < 55
            # The jitter is a tenth of the interval, and the requests of a tick spread over another tenth.
            assert min(found) > 23
            assert max(found) < 38
            assert len({round(each, 1) for each in found}) > 10
        # The manager also writes the status after a call by a timer alone.
        written = await world.get(Greeting, "b")
        assert written.status.text == str(len(Ticking.times["refresh b"]))


async def test_timer_retries_a_failure_within_a_second_and_skips_a_deleting_object():
    held = greeting("held", finalizers=["example.com/hold"])
    async with operated(Ticking, objects=[greeting("a"), held]) as world:
        await world.delete(held)
        Ticking.failing = 3
        await world.until(greeting("a", namespace="default"), lambda it: it.status.text == "4", timeout=60)
        assert max(gaps(Ticking.times["refresh a"])) < 1
        assert "refresh held" not in Ticking.times
        await world.update(held, lambda it: it.metadata.finalizers.clear())


async def test_timer_without_object_argument_logs_a_failure_and_runs_again_at_the_next_interval(
    log_lines: LogLines,
):
    async with operated(Ticking, settings={Ticking.pace: 100}) as world:
        runnables = {each.name: each for each in world.manager._runnables}
        assert runnables["ticking-look_around"].leader_only
        await asyncio.sleep(2000)
    found = gaps(Ticking.times["look "])
    assert 18 <= len(found) <= 20
    assert 90 < min(found) < 95
    assert 106 < max(found) < 111
    [line] = [line for line in log_lines if line["event"] == "a timer failed"]
    assert (line["timer"], line["error"], line["controller"]) == ("look_around", "nothing to see", "ticking")


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf, math.nan])
async def test_timer_refuses_an_invalid_number_of_seconds_of_its_setting(seconds: float):
    with pytest.raises(SettingsError, match=r"^--greeting-pace: @every needs more than 0 seconds, not"):
        async with operated(Ticking, settings={Ticking.pace: seconds}):
            pass


async def test_operator_can_have_timers_and_daemons_without_reconcile():
    class Without(Operator[Greeting]):
        calls: ClassVar[list[str]] = []

        @every(1)
        async def refresh(self, greeting: Greeting, ctx: Context) -> None:
            self.calls.append("refresh")

        @every(1)
        async def look(self) -> None:
            self.calls.append("look")

        @daemon
        async def follow(self, greeting: Greeting) -> None:
            self.calls.append("follow")

    async with operated(Without, objects=[greeting()]):
        await asyncio.sleep(10)
        assert Without.calls.count("follow") == 1
        assert 9 <= Without.calls.count("refresh") <= 12
        assert 9 <= Without.calls.count("look") <= 12


class Refusing(Operator[Greeting]):
    """Operator whose reconcile or timer raises a terminal error for an invalid spec."""

    name = "refusing"
    in_timer: ClassVar[bool] = False
    error: ClassVar[BaseException]
    runs: ClassVar[list[str]]

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        self.runs.append("reconcile")
        if greeting.spec.name == "wrong" and not self.in_timer:
            raise self.error

    @every(30)
    async def refresh(self, greeting: Greeting, ctx: Context) -> None:
        self.runs.append("refresh")
        if greeting.spec.name == "wrong" and self.in_timer:
            raise self.error


@pytest.mark.parametrize("in_timer", [False, True])
@pytest.mark.parametrize(
    "error", [TerminalError("the name is wrong"), ExceptionGroup("", [TerminalError("the name is wrong")])]
)
async def test_timer_waits_for_a_change_after_a_terminal_error_of_the_timer_or_the_reconcile(
    error: Exception, in_timer: bool
):
    Refusing.error, Refusing.in_timer, Refusing.runs = error, in_timer, []
    wrong = greeting("a")
    wrong.spec.name = "wrong"
    async with operated(Refusing, objects=[wrong]) as world:
        await asyncio.sleep(300)
        expected = ["reconcile", "refresh"] if in_timer else ["reconcile"]
        assert Refusing.runs == expected
        await world.update(wrong, lambda it: it.metadata.labels.update(a="b"))
        await asyncio.sleep(300)
        again = ["refresh"] if in_timer else ["refresh", "reconcile"]
        assert Refusing.runs == [*expected, *again]
        Refusing.runs.clear()
        await world.update(wrong, lambda it: setattr(it.spec, "name", "right"))
        await asyncio.sleep(100)
        assert Refusing.runs[:2] == ["refresh", "reconcile"]
        assert 3 <= Refusing.runs.count("refresh") <= 5


async def test_timer_waits_for_a_change_when_its_object_violates_the_model():
    Refusing.error, Refusing.in_timer, Refusing.runs = TerminalError("unused"), False, []
    async with operated(Refusing, objects=[greeting("a")]) as world:
        await asyncio.sleep(1)
        api, crds = world.cluster.client, "customresourcedefinitions.apiextensions.k8s.io"
        definition = await api.get(crds, "", "greetings.test.example.com")
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        await api.update(crds, "", definition)
        await api.patch("greetings.test.example.com", "default", "a", {"spec": {"name": 5}})
        await asyncio.sleep(300)
        history = world.manager.history.of("refusing").of(ObjectKey("default", "a"))
        assert [run.outcome for run in history] == ["success", "error"]


async def test_explain_reports_the_next_timer_unless_the_object_waits_for_a_change():
    Refusing.error, Refusing.in_timer, Refusing.runs = TerminalError("wrong"), False, []
    async with operated(Refusing, objects=[greeting("a")]) as world:
        await asyncio.sleep(10)
        [controller] = world.manager.controllers
        key = ObjectKey("default", "a")
        report = controller_report(world.manager, controller, key)
        assert [each.text for each in report.next.triggers] == ["timer"]
        assert next_run(report).endswith(": timer, or when something changes")
        await world.update(greeting("a", namespace="default"), lambda it: setattr(it.spec, "name", "wrong"))
        await asyncio.sleep(1)
        assert next_run(controller_report(world.manager, controller, key)) == "when something changes"
