"""Simulation runs: they are deterministic, find faults of operators, and report them."""

from __future__ import annotations

import gc
import itertools
import json
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import Annotated, Any
from unittest.mock import Mock

import pytest
from pydantic import Field

from manager import Context, Operator, Result, rbac
from manager.api import ApiModel, Condition, ObjectMeta, Resource, crd, list_map
from manager_kinds.core_v1 import ConfigMap
from manager_tools.simulation import assert_holds, seeds
from manager_tools.simulation.plan import Plan, plan_of
from manager_tools.simulation.seeds import Outcome, run, shrunk, story_of
from manager_tools.simulation.world import World
from tests.support import ROOT
from tests.support.tools import output_of


class GreetingSpec(ApiModel):
    name: Annotated[str, Field(max_length=40)] = "you"


class GreetingStatus(ApiModel):
    text: str = ""
    beats: int = 0
    seconds: int = 0
    last: datetime | None = None
    conditions: Annotated[list[Condition], list_map("type")] = Field(default_factory=list)


@crd()
class Greeting(Resource, group="test.example.com", version="v1", plural="greetings"):
    spec: GreetingSpec = Field(default_factory=GreetingSpec)
    status: GreetingStatus = Field(default_factory=GreetingStatus)


class GreetingOperator(Operator[Greeting]):
    """Operator that owns a ConfigMap with the text of the greeting."""

    owns = (ConfigMap,)

    async def reconcile(self, greeting: Greeting, ctx: Context) -> Result | None:
        text = f"Hello, {greeting.spec.name}"
        await self.write(greeting, text, ctx)
        greeting.status.text = text
        ctx.condition("Ready", True, "Greeted", text)
        return None

    async def write(self, greeting: Greeting, text: str, ctx: Context) -> None:
        metadata = ObjectMeta(name=greeting.metadata.name, namespace=greeting.metadata.namespace)
        await ctx.apply(ConfigMap(metadata=metadata, data={"text": text}))


def operator_of_the_page() -> type[Operator[Any]]:
    """Return the faulty class `ForgetfulOperator` of docs/simulation.md."""
    page = ROOT / "docs" / "simulation.md"
    [code] = re.findall(r"```python\n(class .*?)```", page.read_text(), re.DOTALL)
    found = dict(globals())
    exec(code, found)
    return found["ForgetfulOperator"]


ForgetfulOperator = operator_of_the_page()


class RestlessOperator(GreetingOperator):
    """Operator that writes a new status every `pause` seconds without end."""

    pause = 30

    async def reconcile(self, greeting: Greeting, ctx: Context) -> Result | None:
        greeting.status.text = f"{greeting.status.text[-20:]}."
        ctx.condition("Ready", True, "Greeted", f"{ctx.object.metadata.resource_version}")
        return Result(requeue_after=self.pause)


class SluggishOperator(RestlessOperator):
    """Operator that writes again after 1,000 s, when the simulation already seems calm."""

    pause = 1_000


class CountingOperator(GreetingOperator):
    """Operator that counts its reconciles in the status every 30 s."""

    async def reconcile(self, greeting: Greeting, ctx: Context) -> Result | None:
        greeting.status.beats += 1
        ctx.condition("Ready", True, "Greeted")
        return Result(requeue_after=30)


class RecordOperator(Operator[Greeting]):
    """Operator that creates, for each greeting, a ConfigMap without an owner reference."""

    rights = (rbac(groups="", resources="configmaps", verbs="get;create;update;delete"),)

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        await ctx.confirm()
        metadata = ObjectMeta(name=greeting.metadata.name, namespace=greeting.metadata.namespace)
        record = await ctx.client.uncached.find(ConfigMap, greeting.key)
        if record is None:
            await ctx.client.create(ConfigMap(metadata=metadata, data={"name": greeting.spec.name}))
        elif record.data != {"name": greeting.spec.name}:
            record.data = {"name": greeting.spec.name}
            await ctx.client.update(record)

    async def cleanup(self, greeting: Greeting, ctx: Context) -> Result | None:
        record = await ctx.client.uncached.find(ConfigMap, greeting.key)
        if record is not None:
            await ctx.client.delete(record)
        return None


class LeavingOperator(RecordOperator):
    """Operator whose cleanup does not delete the ConfigMap that a reconcile created."""

    async def cleanup(self, _greeting: Greeting, _ctx: Context) -> Result | None:
        return None


class MistakenOperator(GreetingOperator):
    """Operator whose reconcile always fails."""

    async def write(self, greeting: Greeting, text: str, ctx: Context) -> None:
        raise LookupError("a mistake")


class CuriousOperator(GreetingOperator):
    """Operator that reads from the server every 20 ms without end."""

    async def reconcile(self, greeting: Greeting, ctx: Context) -> Result | None:
        await ctx.client.uncached.find(Greeting, greeting.key)
        return Result(requeue_after=0.02)


@pytest.mark.long
def test_simulation_runs_of_the_same_seed_are_identical_in_every_process():
    program = (
        "import sys\n"
        "from controllers.main import OPERATORS; from manager_tools.simulation.seeds import plan_of, run\n"
        "for seed in map(int, sys.argv[1:]):\n"
        "    print(seed, run(plan_of(seed, OPERATORS), OPERATORS, compare=False).digest)"
    )
    runs = [
        output_of(
            *(sys.executable, "-c", program, *seeds), environ={**os.environ, "PYTHONHASHSEED": hash_seed}
        ).splitlines()
        for hash_seed, seeds in (("1", ("39", "4")), ("2", ("4", "39", "39")))
    ]
    assert [len(each) for each in runs] == [2, 3]
    assert len({line for each in runs for line in each}) == 2


def test_simulation_run_leaves_no_world_object_in_memory():
    gc.collect()
    outcome = run(plan_of(1, (GreetingOperator,), minutes=0.5), (GreetingOperator,))
    assert not [each for each in gc.get_objects() if isinstance(each, World)]
    assert not outcome.violations


def test_assert_holds_passes_for_correct_operators_with_and_without_owned_children():
    # Seed 0, as every fourth seed, continues for half an hour.
    assert_holds(GreetingOperator, seeds=range(2), minutes=1)
    assert_holds(RecordOperator, seeds=range(1, 4), minutes=1)


def test_simulation_accepts_periodic_writes_only_to_a_heartbeat_field():
    operators = (CountingOperator,)
    plan = Plan(1, 1, tuple(each for each in plan_of(0, operators).steps if each.act == "create")[:1], ())
    [violation] = run(plan, operators, compare=False).violations
    assert re.search(
        r"never becomes calm: status\.beats of greetings\.test\.example\.com \S+ is", violation.what
    )
    assert not run(plan, operators, heartbeats=["beats"]).violations


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"heartbeats": "beats"}, r"heartbeats takes a list of .*, such as \['beats'\], and is 'beats'"),
        ({"may_differ": ["status.beats"]}, r"may_differ takes .*, and is \['status.beats'\]"),
        ({"seeds": []}, "assert_holds needs an operator and a seed at least"),
    ],
)
def test_assert_holds_refuses_malformed_field_lists_and_an_empty_seed_list(given: Any, said: str):
    with pytest.raises(ValueError, match=f"^{said}$"):
        assert_holds(GreetingOperator, **given)


def test_assert_holds_raises_type_error_when_operator_attribute_outside_is_no_subclass_of_outside():
    for outside, said in (
        ("nowhere:Nothing", r"^Lost\.outside: No module named 'nowhere'$"),
        (int, r"^Lost\.outside: .* is no subclass of `Outside`$"),
    ):
        operator = type("Lost", (GreetingOperator,), {"outside": outside})
        with pytest.raises(TypeError, match=said):
            assert_holds(operator, seeds=[1])


SHORT = (35, 13, 19)
"""Seeds with few steps that find the fault of `ForgetfulOperator`."""


def failed_run(operator: type[Operator[Any]] = ForgetfulOperator, numbers: Iterable[int] = SHORT) -> Outcome:
    """Return the outcome of the first seed whose run finds a fault of the operator."""
    outcomes = (run(plan_of(number, (operator,), minutes=2), (operator,)) for number in numbers)
    return next((each for each in outcomes if each.violations), None) or pytest.fail(
        "no seed finds the fault of the operator"
    )


@pytest.mark.parametrize(
    ("operator", "what"),
    [
        (ForgetfulOperator, "not as a fresh install has it"),
        (LeavingOperator, r"not as a fresh install has it: configmaps \S+ is not there"),
        (MistakenOperator, "reconcile failed with LookupError: a mistake"),
        (
            RestlessOperator,
            r"never becomes calm: .*status\.conditions\[0\]\.message of greetings\.\S+ \S+ is written all",
        ),
        (CuriousOperator, "is in a hot loop: more than 1000 requests in a minute"),
    ],
)
def test_simulation_finds_a_faulty_operator_and_prints_the_timeline(operator: type[Operator[Any]], what: str):
    story = story_of(failed_run(operator, range(1, 10)))
    assert re.search(what, story)
    assert "what happened (virtual seconds):" in story
    assert re.search(r"person +[a-z ]+: greetings.test.example.com", story)


@pytest.mark.parametrize(
    ("seed", "keeps_certificates", "found"), [(4, False, True), (5, False, False), (5, True, True)]
)
def test_simulation_runs_30_minutes_longer_for_certificate_rotation_and_for_every_fourth_seed(
    seed: int, keeps_certificates: bool, found: bool
):
    operators = (SluggishOperator,)
    create = tuple(each for each in plan_of(0, operators).steps if each.act == "create")[:1]
    plan = Plan(seed, 1, create, (), keeps_certificates=keeps_certificates)
    outcome = run(plan, operators, compare=False)
    assert any("written again" in each.what for each in outcome.violations) is found


@pytest.mark.long
def test_shrunk_plan_reproduces_its_violations_after_json_encoding():
    operators, found = (ForgetfulOperator,), failed_run()
    small = shrunk(found, operators)
    assert small.sort == found.sort
    assert len(small.plan.steps) <= 4
    again = run(Plan.from_json(small.plan.to_json(), kinds=1), operators)
    assert again.violations == small.violations
    assert again.digest == small.digest


def test_plan_shrinking_stops_at_its_time_limit_and_returns_a_smaller_plan(monkeypatch: pytest.MonkeyPatch):
    found, runs, seconds = failed_run(), Mock(side_effect=run), itertools.count()
    monkeypatch.setattr(seeds, "run", runs)
    monkeypatch.setattr(seeds, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    small = shrunk(found, (ForgetfulOperator,), seconds=30)
    assert 5 < runs.call_count <= 10
    assert small.sort == found.sort
    assert len(small.plan.steps) + len(small.plan.faults) < len(found.plan.steps) + len(found.plan.faults)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[" * 100_000, '{"seed": "x"}', '{"seed": 1, "steps": [{}]}', b"\xff"]
)
def test_plan_from_json_refuses_text_without_a_plan(text: str | bytes):
    with pytest.raises(ValueError, match="it is no plan of a simulation"):
        Plan.from_json(text, kinds=1)


@pytest.mark.parametrize(
    ("place", "odd"),
    [
        *((place, None) for place in ("seed", "steps", "steps[0].at", "faults[0].draw")),
        *(("steps[0].at", 1e308), ("steps[0].act", "x"), ("steps[0].kind", -1), ("faults[0].what", "x")),
        *(("faults[0].seconds", -1.5), ("faults[0].replica", 10**30), ("crash_at[1]", "x")),
        *(("replicas", 0), ("replicas", 1000)),
    ],
)
def test_plan_from_json_error_names_the_path_of_an_invalid_value(place: str, odd: object):
    plan = replace(plan_of(5, (ForgetfulOperator,), minutes=1), crash_at=(1, "before"))
    assert Plan.from_json(plan.to_json(), kinds=1) == plan
    at = read = json.loads(plan.to_json())
    *way, last = (int(name) if name.isdigit() else name for name in re.findall(r"\w+", place))
    for name in way:
        at = at[name]
    at[last] = odd
    told = rf"^it is no plan of a simulation: [^\n]* - at `\$\.{re.escape(place)}`$"
    with pytest.raises(ValueError, match=told):
        Plan.from_json(json.dumps(read), kinds=1)


class PickySpec(ApiModel):
    """Spec with a pattern that random values do not match."""

    word: Annotated[str, Field(pattern="^open sesame$")]


@crd()
class Picky(Resource, group="test.example.com", version="v1", plural="pickies"):
    spec: PickySpec
    status: GreetingStatus = Field(default_factory=GreetingStatus)


class PickyOperator(Operator[Picky]):
    async def reconcile(self, picky: Picky, ctx: Context) -> None:
        ctx.condition("Ready", True, "Opened", picky.spec.word)


def test_assert_holds_fails_when_the_server_rejects_all_objects_of_a_kind_unless_a_sample_is_given():
    with pytest.raises(AssertionError, match="took none of the objects made up for Picky: give `samples`"):
        assert_holds(PickyOperator, seeds=(1, 2), minutes=1)
    sample = Picky(metadata=ObjectMeta(name="a"), spec=PickySpec(word="open sesame"))
    assert_holds(PickyOperator, seeds=[1], minutes=1, samples=[sample])
