"""Tests of the Greeting validation."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from manager.webhook import AdmissionRequest, Refused
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting
from manager_tools.scaffold.project.controllers.answering.validation import GreetingOperator
from manager_tools.testing import without_manager

SAMPLE = Path(__file__).parents[1] / "config" / "samples" / "hello_v1_greeting.yaml"


async def test_validator_refuses_a_name_with_a_dot_unless_the_object_is_stored_already() -> None:
    operator = without_manager(GreetingOperator)
    request = AdmissionRequest("", "CREATE", Greeting.gvk, Greeting.plural)
    greeting = Greeting.model_validate(next(yaml.safe_load_all(SAMPLE.read_text())))
    assert not await operator.check(None, greeting, request)
    greeting.metadata.name = "a.b"
    with pytest.raises(Refused, match=r"metadata\.name"):
        await operator.check(None, greeting, request)
    assert not await operator.check(greeting, greeting, request)
