from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from manager.api import ObjectMeta
from manager_kinds.apps_v1 import Deployment
from manager_kinds.pod_health import PodHealth
from tests.unit.manager_kinds.pods import container, pod


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
def test_deployment_is_rolled_out_only_when_every_replica_is_updated_and_ready(behind: dict[str, int]):
    assert deployment().is_rolled_out(3)
    assert not deployment().is_rolled_out(2)
    assert not deployment(**behind).is_rolled_out(3)
    assert not Deployment(metadata=ObjectMeta(name="d", generation=1)).is_rolled_out(0)


def test_deployment_failure_comes_from_the_replica_failure_or_progressing_condition():
    assert deployment(("Available", "False"), ("Progressing", "True")).failure is None
    assert deployment(("ReplicaFailure", "False")).failure is None
    assert deployment(("Progressing", "False")).failure == ("Why", "so")
    assert deployment(("Progressing", "False"), reason="").failure == ("NotProgressing", "so")
    assert deployment(("ReplicaFailure", "True"), reason="").failure == ("ReplicaFailure", "so")
    new = Deployment(metadata=ObjectMeta(name="d", generation=1))
    assert (new.failure, new.is_available) == (None, False)


READY, FEW = "3 of 3 replicas are ready", "1 of 3 replicas are ready"


def test_owner_conditions_are_derived_from_the_conditions_of_the_deployment():
    assert list(deployment(("Available", "True")).conditions_for(3)) == [
        ("Available", True, "EnoughReady", READY),
        ("Progressing", False, "RolledOut", READY),
        ("Degraded", False, "AsExpected", ""),
    ]
    assert list(deployment(readyReplicas=1).conditions_for(3)) == [
        ("Available", False, "NotEnoughReady", FEW),
        ("Progressing", True, "RollingOut", FEW),
        ("Degraded", False, "AsExpected", ""),
    ]
    assert list(deployment(("ReplicaFailure", "True"), readyReplicas=1).conditions_for(3)) == [
        ("Available", False, "Why", FEW),
        ("Progressing", True, "Why", f"{FEW}; so"),
        ("Degraded", True, "Why", "so"),
    ]


def health(name: str, **state: Any) -> PodHealth:
    ready = "running" in state
    return PodHealth.of(pod(container(state, ready=ready), name=name), datetime(2026, 5, 1, 12, tzinfo=UTC))


PULL = {"reason": "ErrImagePull", "message": "not found"}
OLD = [health(f"old-{number}", running={"startedAt": "2026-05-01T10:00:00Z"}) for number in range(3)]
NEW = health("new-1", waiting=PULL)


def test_owner_conditions_name_the_pod_problem_when_a_rollout_is_stuck():
    stuck = deployment(("Available", "True"), ("Progressing", "True"), replicas=4, updatedReplicas=1)
    why = "1 of 4 pods: new-1: container memcached: not found"
    assert list(stuck.conditions_for(3, [*OLD, NEW])) == [
        ("Available", True, "EnoughReady", READY),
        ("Progressing", True, "ImagePullBackOff", f"{READY}; {why}"),
        ("Degraded", True, "ImagePullBackOff", why),
    ]
    updating = deployment(("Available", "True"), replicas=4, updatedReplicas=1)
    assert list(updating.conditions_for(3, OLD)) == [
        ("Available", True, "EnoughReady", READY),
        ("Progressing", True, "RollingOut", f"{READY}, and not all are up to date"),
        ("Degraded", False, "AsExpected", ""),
    ]


def test_pod_problem_replaces_progress_deadline_exceeded_but_is_appended_to_a_replica_failure():
    late = deployment(("Progressing", "False"), reason="ProgressDeadlineExceeded", readyReplicas=0)
    assert late.problem(3) == ("ProgressDeadlineExceeded", "so")
    assert late.problem(3, [NEW]) == ("ImagePullBackOff", "1 of 1 pod: new-1: container memcached: not found")
    refused = deployment(("ReplicaFailure", "True"), reason="FailedCreate", readyReplicas=0)
    assert refused.problem(3, [NEW]) == (
        "FailedCreate",
        "so; 1 of 1 pod: new-1: container memcached: not found",
    )
