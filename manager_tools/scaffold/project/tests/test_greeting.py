"""Tests of the Greeting operator."""

from __future__ import annotations

from manager.api import ObjectMeta
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting, GreetingSpec
from manager_tools.scaffold.project.controllers.hello.greeting import GreetingOperator
from manager_tools.simulation import assert_holds
from manager_tools.testing import operated


def is_ready(greeting: Greeting, size: int) -> bool:
    states = {each.type: each.status for each in greeting.status.conditions}
    return states.get("Ready") == "True" and greeting.status.size == size


async def test_greeting_becomes_ready_and_is_ready_again_after_a_spec_change() -> None:
    async with operated(GreetingOperator) as world:
        greeting = Greeting(metadata=ObjectMeta(name="sample"), spec=GreetingSpec(size=2))
        greeting = await world.create(greeting)
        await world.until(greeting, lambda it: is_ready(it, 2))
        await world.update(greeting, lambda it: setattr(it.spec, "size", 1))
        await world.until(greeting, lambda it: is_ready(it, 1))


def test_greeting_operator_recovers_from_simulated_faults() -> None:
    assert_holds(GreetingOperator, seeds=range(3))
