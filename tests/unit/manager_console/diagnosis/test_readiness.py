"""Readiness of built-in and custom kinds, from statuses that Kubernetes writes."""

from __future__ import annotations

from typing import Any

import pytest

from manager_console.diagnosis.readiness import FINE, SILENT, Verdict, bad_conditions, is_behind, judge


def condition(kind: str, status: str, reason: str = "", message: str = "", **more: Any) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, **more}


def made(kind: str, spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": "it"}, "spec": spec or {}, "status": status}


def container(**state: Any) -> dict[str, Any]:
    return {"name": "main", "state": state}


READY, UNREADY = condition("Ready", "True"), condition("Ready", "False", "ContainersNotReady", "[main]")
PULL = [container(waiting={"reason": "ImagePullBackOff", "message": 'Back-off pulling image "nope"'})]
PULLS = "ImagePullBackOff", 'container main: Back-off pulling image "nope"'
CREATING = [container(waiting={"reason": "ContainerCreating"})]
UNBOUND = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims"
EVICTED = "The node was low on resource: memory."
EXCEEDED = "FailedCreate", 'pods "web-1" is forbidden: exceeded quota: none'
LATE = "ProgressDeadlineExceeded", "late"
FAILED = "BackoffLimitExceeded", "Job has failed"


@pytest.mark.parametrize(
    ("obj", "verdict"),
    [
        (made("Pod", phase="Running", conditions=[READY]), FINE),
        (made("Pod", phase="Succeeded", conditions=[UNREADY]), FINE),
        (made("Pod"), ("Pending", "it has not started yet")),
        (made("Pod", phase="Pending", conditions=[UNREADY], containerStatuses=PULL), PULLS),
        (made("Pod", conditions=[UNREADY], containerStatuses=CREATING), ("ContainersNotReady", "[main]")),
        (
            made("Pod", conditions=[condition("PodScheduled", "False", "Unschedulable", UNBOUND)]),
            ("Unschedulable", UNBOUND),
        ),
        (made("Pod", phase="Failed", reason="Evicted", message=EVICTED), ("Evicted", EVICTED)),
        (made("PersistentVolumeClaim", phase="Bound"), FINE),
        (made("PersistentVolumeClaim", phase="Pending"), ("Pending", "no volume is bound to it")),
        (made("Deployment", {"replicas": 2}, readyReplicas=2, updatedReplicas=2), FINE),
        (
            made("Deployment", {"replicas": 2}, readyReplicas=2, updatedReplicas=1),
            ("RollingOut", "1 of 2 pods are up to date"),
        ),
        (made("Deployment", {"replicas": 0}), FINE),
        (
            made("Deployment", {"replicas": 2}, readyReplicas=1),
            ("NotEnoughReady", "1 of 2 pods are ready"),
        ),
        (
            made("ReplicaSet", {"replicas": 2}, conditions=[condition("ReplicaFailure", "True", *EXCEEDED)]),
            EXCEEDED,
        ),
        (made("Deployment", conditions=[condition("Progressing", "False", *LATE)]), LATE),
        (
            made("DaemonSet", desiredNumberScheduled=3, numberReady=1),
            ("NotEnoughReady", "1 of 3 pods are ready"),
        ),
        (made("Job", conditions=[condition("Failed", "True", *FAILED)]), FAILED),
        (made("Foo", conditions=[condition("Happy", "True")]), FINE),
        (made("Foo", conditions=[condition("Progressing", "False"), condition("Degraded", "False")]), FINE),
        (
            made("Foo", conditions=[condition("Happy", "Unknown", "Asking", "is asked")]),
            ("Asking", "is asked"),
        ),
        (made("Secret"), SILENT),
        (made("Foo", conditions="none"), SILENT),
    ],
)
def test_readiness_judge_returns_ready_or_the_problem_that_the_status_shows(
    obj: dict[str, Any], verdict: Verdict | tuple[str, str]
):
    assert judge(obj) == (verdict if isinstance(verdict, Verdict) else (False, *verdict))


def test_bad_conditions_function_returns_degraded_before_unavailable():
    told = [condition("Available", "False", "NotEnoughReady"), condition("Degraded", "True", "NameTaken")]
    assert [each["reason"] for each in bad_conditions(made("Foo", conditions=told))] == [
        "NameTaken",
        "NotEnoughReady",
    ]


@pytest.mark.parametrize(
    ("status", "behind"),
    [
        ({}, False),
        ({"observedGeneration": 1}, True),
        ({"observedGeneration": 2}, False),
        ({"conditions": [condition("Ready", "True", observedGeneration=1)]}, True),
        ({"conditions": [condition("Ready", "True", observedGeneration=2)]}, False),
    ],
)
def test_is_behind_is_true_when_the_status_is_for_an_earlier_generation(status: dict[str, Any], behind: bool):
    obj = made("Foo", **status)
    obj["metadata"]["generation"] = 2
    assert is_behind(obj) is behind


ODD = [None, True, 7, 1.5, "x", [], [7], {}, {"": []}, [{"type": [], "status": {}, "reason": 7}]]


@pytest.mark.parametrize("kind", ["Pod", "PersistentVolumeClaim", "Deployment", "DaemonSet", "Job", "Foo"])
@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_readiness_functions_raise_no_error_for_malformed_fields(kind: str, odd: Any):
    statuses = {"state": odd}, {"state": {"waiting": odd}}, {"state": {"terminated": odd}}, odd
    names = ("conditions", "containerStatuses", "phase", "readyReplicas", "numberReady", "observedGeneration")
    named = [{"status": {name: odd}} for name in names]
    conditions = [
        {"status": {"conditions": [{name: odd}]}}
        for name in ("type", "status", "message", "observedGeneration")
    ]
    for each in (
        *named,
        *conditions,
        *({"status": {"containerStatuses": [one]}} for one in statuses),
        *({"metadata": odd}, {"spec": odd}, {"status": odd}, {"spec": {"replicas": odd}}),
        *({"metadata": {"deletionTimestamp": odd, "finalizers": odd, "generation": odd}}, {}),
    ):
        verdict = judge({"kind": kind, **each})
        assert all(isinstance(said, str) for said in verdict[1:])
        is_behind({"kind": kind, **each})
        bad_conditions(each)
