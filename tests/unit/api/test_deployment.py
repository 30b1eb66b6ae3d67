from __future__ import annotations

from typing import Any

import pytest

from manager.api import ObjectMeta
from manager.api.apps_v1 import Deployment


def deployment(*conditions: tuple[str, str], reason: str = "Why", **status: Any) -> Deployment:
    known = [{"type": kind, "status": value, "reason": reason, "message": "so"} for kind, value in conditions]
    counts = {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, **status}
    return Deployment.model_validate(
        {"metadata": {"name": "d", "generation": 2}, "status": {**counts, "conditions": known}}
    )


@pytest.mark.parametrize(
    "behind",
    [{"observedGeneration": 1}, {"replicas": 4}, {"updatedReplicas": 2}, {"readyReplicas": 2}],
    ids=lambda status: next(iter(status)),
)
def test_it_is_rolled_out_when_every_replica_is_new_and_ready(behind: dict[str, int]):
    assert deployment().is_rolled_out(3)
    assert not deployment().is_rolled_out(2)
    assert not deployment(**behind).is_rolled_out(3)


def test_one_that_nobody_has_looked_at_is_neither_available_nor_failing():
    new = Deployment(metadata=ObjectMeta(name="d", generation=1))
    assert not new.is_available
    assert not new.is_rolled_out(0)
    assert new.failure is None


def test_it_fails_when_its_pods_are_refused_or_take_too_long():
    assert deployment(("Available", "False"), ("Progressing", "True")).failure is None
    assert deployment(("ReplicaFailure", "False")).failure is None
    assert deployment(("Progressing", "False")).failure == ("Why", "so")
    assert deployment(("Progressing", "False"), reason="").failure == ("NotProgressing", "so")
    assert deployment(("ReplicaFailure", "True"), reason="").failure == ("ReplicaFailure", "so")


def test_its_conditions_for_an_owner_follow_its_own():
    ready = "3 of 3 replicas are ready"
    assert list(deployment(("Available", "True")).conditions_for(3)) == [
        ("Available", True, "EnoughReady", ready),
        ("Progressing", False, "RolledOut", ready),
        ("Degraded", False, "AsExpected", ""),
    ]
    few = "1 of 3 replicas are ready"
    assert list(deployment(("ReplicaFailure", "True"), readyReplicas=1).conditions_for(3)) == [
        ("Available", False, "NotEnoughReady", few),
        ("Progressing", True, "RollingOut", few),
        ("Degraded", True, "Why", "so"),
    ]
