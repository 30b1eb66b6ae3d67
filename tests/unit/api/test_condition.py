from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import Field, ValidationError

from manager import Operator
from manager.api import Condition, ConditionStatus, Resource, Status, crd, is_true, set_condition
from manager_tools.codegen.model_schema import model_schema

T0 = datetime(2026, 1, 1, tzinfo=UTC)
T1 = T0 + timedelta(minutes=1)


def ready(status: ConditionStatus) -> Condition:
    return Condition(type="Ready", status=status, reason="Because")


def set_ready(
    conditions: list[Condition],
    status: ConditionStatus,
    *,
    now: datetime,
    reason: str = "Because",
    message: str = "",
    generation: int | None = None,
) -> bool:
    return set_condition(conditions, "Ready", status, reason, message, generation=generation, now=lambda: now)


def test_set_condition_sets_a_missing_transition_time_in_whole_seconds():
    for conditions in ([Condition(type="Other", status="True", reason="R")], [ready("True")]):
        assert set_ready(conditions, "True", now=T0.replace(microsecond=123456))
        assert conditions[-1].type == "Ready"
        assert conditions[-1].to_wire()["lastTransitionTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("change", "is_changed", "moved"),
    [
        ({}, False, T0),
        ({"status": "False"}, True, T1),
        ({"reason": "Another"}, True, T0),
        ({"message": "new"}, True, T0),
        ({"generation": 2}, True, T0),
    ],
    ids=lambda each: next(iter(each), "nothing") if isinstance(each, dict) else "",
)
def test_set_condition_changes_the_transition_time_only_when_the_status_changes(
    change: dict[str, Any], is_changed: bool, moved: datetime
):
    conditions: list[Condition] = []
    set_ready(conditions, "True", now=T0)
    assert set_ready(conditions, **{"status": "True", **change}, now=T1) is is_changed
    assert conditions[0].status == change.get("status", "True")
    assert conditions[0].last_transition_time == moved


@pytest.mark.parametrize(("status", "holds"), [("True", True), ("False", False), ("Unknown", False)])
def test_is_true_returns_true_only_for_a_condition_with_status_true(status: ConditionStatus, holds: bool):
    assert is_true([ready(status)], "Ready") is holds
    assert not is_true([], "Ready")


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "not a type"},
        {"type": "x" * 317},
        {"status": "true"},
        {"reason": ""},
        {"reason": "two words"},
        {"reason": "x" * 1025},
        {"message": "x" * 32769},
        {"observedGeneration": -1},
    ],
)
def test_condition_refuses_values_that_the_api_server_refuses(wrong: dict[str, Any]):
    valid = {"type": "example.com/Ready", "status": "True", "reason": "Fine:All_9", "message": "x" * 32768}
    Condition.model_validate(valid)
    with pytest.raises(ValidationError):
        Condition.model_validate({**valid, **wrong})


class LampStatus(
    Status, about="the lamp", conditions={"Lit": "there is light", "Degraded": "its bulb is broken"}
):
    watts: int | None = None


class Lamp(Resource, group="test.example.com", version="v1", plural="lamps"):
    status: LampStatus = Field(default_factory=LampStatus)


@crd()
class Plain(Resource, group="test.example.com", version="v1", plural="plains"):
    status: Status = Field(default_factory=Status)


@crd()
class Bare(Resource, group="test.example.com", version="v1", plural="bares"):
    pass


def test_status_schema_lists_conditions_last_and_describes_each_condition_type():
    class LedStatus(LampStatus):
        hue: int = 0

    for status, fields in ((LampStatus, ["watts"]), (LedStatus, ["watts", "hue"])):
        properties = model_schema(status)["properties"]
        assert [*properties] == [*fields, "observedGeneration", "conditions"]
        assert properties["conditions"]["description"] == (
            "What is known about the lamp:\nLit: there is light;\nDegraded: its bulb is broken."
        )


class Foreign(Resource, group="test.example.com", version="v1", plural="foreigns"):
    status: Status = Field(default_factory=Status)


@pytest.mark.parametrize(
    ("declared", "conditions"),
    [
        ({"kind": Lamp}, ("Lit", "Degraded")),
        ({"kind": Lamp, "conditions": ("Lit",)}, ("Lit",)),
        ({"kind": Plain}, ("Ready",)),
        ({"kind": Bare}, ("Ready",)),
        ({"kind": Foreign}, ()),
    ],
)
def test_operator_has_the_condition_types_of_its_status_model_unless_it_declares_conditions(
    declared: dict[str, Any], conditions: tuple[str, ...]
):
    operator: Any = type("Some", (Operator,), declared)
    assert operator.conditions == conditions
