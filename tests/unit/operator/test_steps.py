"""Steps: long operations whose progress is in the status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import pytest
from pydantic import Field

from manager import Context, Operator, Steps
from manager.api import ApiModel, Condition, ObjectMeta, Resource, Status, StepsStatus, crd, preserve_unknown
from manager_kinds.core_v1 import ConfigMap
from manager_tools.simulation.plan import Plan, Step
from manager_tools.simulation.seeds import crash_points, run, story_of
from manager_tools.testing import VirtualClock, operated


class Stop(ApiModel):
    name: str
    nights: int = 1


class JourneySpec(ApiModel):
    to: str = "Rome"
    by: Annotated[dict[str, Any] | None, preserve_unknown()] = None
    stops: list[Stop] | None = None
    note: str = ""


class JourneyStatus(Status, conditions={"Progressing": "it is on its way", "Degraded": "it has failed"}):
    trip: StepsStatus = Field(default_factory=StepsStatus)


@crd()
class Journey(Resource, group="trips.example.com", version="v1", plural="journeys"):
    spec: JourneySpec = Field(default_factory=JourneySpec)
    status: JourneyStatus = Field(default_factory=JourneyStatus)


class JourneyOperator(Operator[Journey]):
    """Operator of Journeys, with three steps; it writes the journey's current place to a ConfigMap."""

    owns = (ConfigMap,)
    trip = Steps(".status.trip", of=("spec.to", "spec.by", "spec.stops[*].name"), limit=1000)

    calls: ClassVar[list[str]]
    waits: ClassVar[dict[str, str]]
    raises: ClassVar[set[str]]
    hangs: ClassVar[set[str]]

    async def reconcile(self, journey: Journey, ctx: Context) -> None:
        if await ctx.run_steps(self.trip):
            await self.note(journey, ctx, f"in {journey.spec.to}")

    async def note(self, journey: Journey, ctx: Context, text: str) -> None:
        named = ObjectMeta(name=journey.metadata.name, namespace=journey.metadata.namespace)
        await ctx.apply(ConfigMap(metadata=named, data={"where": text}))

    async def at(self, step: str, journey: Journey) -> str | None:
        self.calls.append(f"{step} {journey.spec.to}")
        if step in self.raises:
            raise LookupError(step)
        if step in self.hangs:
            await asyncio.sleep(10_000)
        return self.waits.get(step)

    @trip.step(limit=600, every=20)
    async def pack(self, journey: Journey, ctx: Context) -> str | None:
        return await self.at("pack", journey)

    @trip.step(limit=100)
    async def go_there(self, journey: Journey, ctx: Context) -> str | None:
        await self.note(journey, ctx, f"to {journey.spec.to}")
        return await self.at("go", journey)

    @trip.step()
    async def unpack(self, journey: Journey, ctx: Context) -> str | None:
        return await self.at("unpack", journey)


@pytest.fixture(autouse=True)
def calm() -> None:
    cls = JourneyOperator
    cls.calls, cls.waits, cls.raises, cls.hangs = [], {}, set(), set()


VIA_PISA = JourneySpec(stops=[Stop(name="Pisa")])


def journey() -> Journey:
    return Journey(metadata=ObjectMeta(name="a"))


def ended(state: str) -> Callable[[Journey], bool]:
    return lambda it: it.status.trip.state == state


def condition(journey: Journey, kind: str) -> Condition:
    return next(each for each in journey.status.conditions if each.type == kind)


async def test_steps_run_once_and_in_their_declared_order() -> None:
    async with operated(JourneyOperator, clock=VirtualClock()) as world:
        mine = await world.until(await world.create(journey()), ended("Succeeded"))
        assert JourneyOperator.calls == ["pack Rome", "go Rome", "unpack Rome"]
        assert mine.status.trip.achieved == {"spec.to": "Rome"}
        mine = await world.update(mine, lambda it: setattr(it.spec, "note", "no reason to go"))
        await world.until(mine, lambda it: it.status.observed_generation == 2)
        assert len(JourneyOperator.calls) == 3
        assert (await world.get(ConfigMap, "a")).data == {"where": "in Rome"}
        assert await world.events(mine) == ["TripStarted", "Created", "TripSucceeded", "Updated"]


async def test_waiting_step_writes_its_message_to_the_status_and_is_retried() -> None:
    clock = VirtualClock()
    async with operated(JourneyOperator, clock=clock) as world:
        JourneyOperator.waits = {"pack": "waits for a bag"}
        mine = await world.create(journey())
        mine = await world.until(mine, lambda it: it.status.trip.message == "waits for a bag")
        assert (mine.status.trip.step, mine.status.trip.progress) == ("Pack", "1/3")
        progressing = condition(mine, "Progressing")
        assert (progressing.status, progressing.reason) == ("True", "Pack")
        assert progressing.message == "1/3: waits for a bag"
        await clock.advance(seconds=90)
        assert JourneyOperator.calls == ["pack Rome"] * 5
        JourneyOperator.waits = {}
        mine = await world.until(mine, ended("Succeeded"), timeout=30)
        assert condition(mine, "Progressing").status == "False"


@pytest.mark.parametrize("how", ["waits", "raises", "hangs"])
async def test_steps_fail_when_one_step_exceeds_its_timeout(how: str) -> None:
    async with operated(JourneyOperator, clock=VirtualClock()) as world:
        setattr(JourneyOperator, how, {"go": "waits for a train"} if how == "waits" else {"go"})
        mine = await world.until(await world.create(journey()), ended("Failed"), timeout=200)
        trip = mine.status.trip
        why = {
            "waits": "waits for a train",
            "raises": "LookupError; see the manager's log",
            "hangs": "the step does not return",
        }
        assert trip.message == f"GoThere took longer than 100 s: {why[how]}"
        assert 100 <= (trip.ended_at - trip.step_started_at).total_seconds() < 101
        degraded = condition(mine, "Degraded")
        assert (degraded.status, degraded.reason) == ("True", "TripFailed")
        assert condition(mine, "Progressing").status == "False"
        calls = len(JourneyOperator.calls)
        # Only a change of the spec makes another attempt.
        setattr(JourneyOperator, how, {})
        mine = await world.update(mine, lambda it: it.metadata.labels.update(a="b"))
        await asyncio.sleep(3000)
        assert len(JourneyOperator.calls) == calls
        mine = await world.update(mine, lambda it: setattr(it.spec, "note", "once more"))
        mine = await world.until(mine, ended("Succeeded"))
        assert condition(mine, "Degraded").status == "False"


async def test_steps_fail_when_all_steps_together_exceed_the_timeout() -> None:
    clock = VirtualClock()
    async with operated(JourneyOperator, clock=clock) as world:
        JourneyOperator.waits = {"pack": "waits for a bag"}
        mine = await world.create(journey())
        await clock.advance(seconds=570)
        JourneyOperator.waits = {"unpack": "waits for a room"}
        mine = await world.until(mine, ended("Failed"), timeout=600)
        message = "all steps together took longer than 1000 s: waits for a room"
        assert (mine.status.trip.step, mine.status.trip.message) == ("Unpack", message)


async def test_steps_restart_when_their_input_fields_change() -> None:
    async with operated(JourneyOperator, clock=VirtualClock()) as world:
        mine = await world.until(await world.create(journey()), ended("Succeeded"))
        JourneyOperator.calls.clear()
        JourneyOperator.waits = {"unpack": "waits for a room"}
        by = {"train": {"class": 2, "seat": None}, "ship": None}
        mine = await world.update(mine, lambda it: vars(it.spec).update(to="Oslo", by=by))
        mine = await world.until(mine, lambda it: it.status.trip.message == "waits for a room")
        train = {"train": {"class": 2}}
        assert mine.status.trip.changes == {"spec.to": ("Rome", "Oslo"), "spec.by": (None, train)}
        mine = await world.update(mine, lambda it: vars(it.spec).update(to="Rome", by=None))
        mine = await world.until(mine, lambda it: it.status.trip.generation == 3)
        JourneyOperator.waits = {}
        mine = await world.update(mine, lambda it: setattr(it.spec, "note", "go on"))
        mine = await world.until(mine, ended("Succeeded"))
        assert mine.status.trip.changes == {}
        calls = list(dict.fromkeys(JourneyOperator.calls))
        assert calls[:4] == ["pack Oslo", "go Oslo", "unpack Oslo", "pack Rome"]
        assert (await world.get(ConfigMap, "a")).data == {"where": "in Rome"}
        events = await world.events(mine)
        assert [each for each in events if each.startswith("Trip")] == [
            "TripStarted",
            "TripSucceeded",
            "TripStarted",
            "TripRestarted",
        ]


async def test_steps_restart_when_an_input_field_of_a_list_item_changes() -> None:
    async with operated(JourneyOperator, clock=VirtualClock()) as world:
        mine = await world.create(Journey(metadata=ObjectMeta(name="a"), spec=VIA_PISA))
        mine = await world.until(mine, ended("Succeeded"))
        assert mine.status.trip.achieved == {"spec.to": "Rome", "spec.stops[*].name": ["Pisa"]}
        mine = await world.update(mine, lambda it: setattr((it.spec.stops or [])[0], "nights", 2))
        await world.until(mine, lambda it: it.status.observed_generation == 2)
        assert len(JourneyOperator.calls) == 3
        mine = await world.update(mine, lambda it: setattr((it.spec.stops or [])[0], "name", "Siena"))
        await world.until(mine, lambda it: it.status.trip.achieved.get("spec.stops[*].name") == ["Siena"])


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ({"status": ".status.nothing"}, r"Wrong\.trip: Journey\.status needs a field `nothing: StepsStatus`"),
        ({"status": ".status.conditions"}, r"needs a field `conditions: StepsStatus`"),
        ({"of": ("spec.too",)}, r"Wrong\.trip: 'spec\.too': Journey has no field spec\.too; did you mean"),
        ({"of": "spec.to"}, r"takes a list of paths, such as"),
        ({"of": ()}, r"takes a list of paths, such as"),
    ],
)
def test_steps_declaration_with_a_missing_status_or_input_field_is_refused(
    steps: dict[str, Any], said: str
) -> None:
    with pytest.raises(TypeError, match=said):

        class Wrong(Operator[Journey]):
            trip = Steps(**{"status": ".status.trip", "of": ("spec.to",), "limit": 10, **steps})

            @trip.step()
            async def go(self, journey: Journey, ctx: Context) -> None: ...


def test_steps_declaration_with_an_invalid_step_method_is_refused() -> None:
    trip = Steps(".status.trip", of=("spec.to",), limit=10)
    with pytest.raises(TypeError, match=r"`async def go\(self, obj, ctx\)`"):

        @trip.step()  # type: ignore[type-var]
        def go(self: object, journey: Journey, ctx: Context) -> None: ...

    with pytest.raises(TypeError, match=r"^Short\.go is called with \(self, obj, ctx\), and takes \(self, j"):

        class Short(Operator[Journey]):
            trip = Steps(".status.trip", of=("spec.to",), limit=10)

            @trip.step()
            async def go(self, journey: Journey) -> None: ...

    with pytest.raises(ValueError, match="more than 0 seconds, not -1"):
        trip.step(limit=-1)(JourneyOperator.pack)
    with pytest.raises(TypeError, match="seconds as a number, not '1h'"):
        Steps(".status.trip", of=("spec.to",), limit="1h")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"has no steps: mark methods with `@trip\.step\(\)`"):

        class Wrong(Operator[Journey]):
            trip = Steps(".status.trip", of=("spec.to",), limit=10)


async def test_step_runs_once_more_before_its_timeout_is_reported() -> None:
    async with operated(JourneyOperator, clock=VirtualClock()) as world:
        JourneyOperator.waits = {"go": "waits for a train"}
        mine = await world.create(journey())
        mine = await world.until(mine, lambda it: it.status.trip.message == "waits for a train")
        JourneyOperator.waits = {}
        mine = await world.until(mine, ended("Succeeded"), timeout=110)
        assert JourneyOperator.calls[-2:] == ["go Rome", "unpack Rome"]


@pytest.mark.parametrize("at", [1.008, pytest.param(60.0, marks=pytest.mark.long)])
def test_steps_complete_after_a_crash_at_any_write(at: float) -> None:
    # The spec changes during the steps, or long after them.
    plan = Plan(0, 1, (Step(0.0, "create", 0, 1), Step(at, "change", 0, 18)), ())
    points = [each for each in crash_points(plan, (JourneyOperator,)) if each.crash_at and each.replicas == 1]
    points = [each for each in points if each.crash_at and each.crash_at[1] in {"after", "stale"}]
    assert len(points) > 24
    for point in points:
        JourneyOperator.calls.clear()
        outcome = run(point, (JourneyOperator,))
        assert outcome.violations == (), story_of(outcome)
        assert "unpack 2Gi" in JourneyOperator.calls
