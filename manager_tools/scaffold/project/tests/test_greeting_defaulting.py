"""Tests of the Greeting defaults."""

from __future__ import annotations

from manager.webhook import AdmissionRequest, JsonObject
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting
from manager_tools.scaffold.project.controllers.answering.defaulting import GreetingOperator
from manager_tools.testing import without_manager


async def test_defaulting_adds_a_missing_label_and_keeps_an_existing_label_value() -> None:
    operator = without_manager(GreetingOperator)
    request = AdmissionRequest("", "CREATE", Greeting.gvk, Greeting.plural)
    bare: JsonObject = {"metadata": {"name": "sample"}}
    await operator.fill_in(bare, request)
    assert bare["metadata"]["labels"] == {"app.kubernetes.io/part-of": "hello"}
    labelled: JsonObject = {"metadata": {"labels": {"app.kubernetes.io/part-of": "mine"}}}
    await operator.fill_in(labelled, request)
    assert labelled["metadata"]["labels"] == {"app.kubernetes.io/part-of": "mine"}
