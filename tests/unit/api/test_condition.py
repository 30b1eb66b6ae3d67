from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from manager.api import Condition, ConditionStatus, is_true, set_condition

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


def test_set_condition_appends_a_new_condition_with_the_time():
    conditions = [Condition(type="Other", status="True", reason="R")]
    assert set_ready(conditions, "False", now=T0)
    assert [each.type for each in conditions] == ["Other", "Ready"]
    assert conditions[1].last_transition_time == T0


def test_set_condition_changes_nothing_when_it_sets_the_same():
    conditions: list[Condition] = []
    set_ready(conditions, "True", now=T0)
    assert not set_ready(conditions, "True", now=T1)
    assert conditions[0].last_transition_time == T0


def test_set_condition_moves_the_time_when_the_status_changes():
    conditions: list[Condition] = []
    set_ready(conditions, "True", now=T0)
    assert set_ready(conditions, "False", now=T1)
    assert conditions[0].status == "False"
    assert conditions[0].last_transition_time == T1


@pytest.mark.parametrize("change", [{"reason": "Another"}, {"message": "new"}, {"generation": 2}])
def test_set_condition_keeps_the_time_when_the_status_stays(change: dict[str, Any]):
    conditions: list[Condition] = []
    set_ready(conditions, "True", now=T0)
    assert set_ready(conditions, "True", now=T1, **change)
    assert conditions[0].last_transition_time == T0


def test_set_condition_writes_whole_seconds():
    conditions: list[Condition] = []
    set_ready(conditions, "True", now=T0.replace(microsecond=123456))
    assert conditions[0].to_wire()["lastTransitionTime"] == "2026-01-01T00:00:00Z"


def test_set_condition_adds_a_missing_time():
    conditions = [ready("True")]
    assert set_ready(conditions, "True", now=T0)
    assert conditions[0].last_transition_time == T0


@pytest.mark.parametrize(("status", "holds"), [("True", True), ("False", False), ("Unknown", False)])
def test_is_true_needs_a_condition_with_status_true(status: ConditionStatus, holds: bool):
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
def test_condition_refuses_values_that_the_server_would_refuse(wrong: dict[str, Any]):
    valid = {"type": "example.com/Ready", "status": "True", "reason": "Fine:All_9", "message": "x" * 32768}
    Condition.model_validate(valid)
    with pytest.raises(ValidationError):
        Condition.model_validate({**valid, **wrong})
