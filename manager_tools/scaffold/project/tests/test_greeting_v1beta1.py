"""Tests of the Greeting in version v1beta1."""

from __future__ import annotations

import copy
from pathlib import Path

import yaml

from manager_tools.scaffold.project.apis.hello.v1beta1.greeting import Greeting
from manager_tools.scaffold.project.controllers.answering.conversion import GreetingOperator
from manager_tools.testing import without_manager

SAMPLE = Path(__file__).parents[1] / "config" / "samples" / "hello_v1_greeting.yaml"


async def test_conversion_round_trip_leaves_the_object_unchanged() -> None:
    operator = without_manager(GreetingOperator)
    sample = next(yaml.safe_load_all(SAMPLE.read_text()))
    greeting = copy.deepcopy(sample)
    await operator.to_v1beta1(greeting)
    Greeting.model_validate({**greeting, "apiVersion": Greeting.gvk.api_version})
    await operator.from_v1beta1(greeting)
    assert greeting == sample
