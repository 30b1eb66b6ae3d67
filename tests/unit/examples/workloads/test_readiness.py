from __future__ import annotations

from typing import Any

import pytest

from examples.workloads.readiness import pod_reasons, ready_replicas
from manager.api import ObjectMeta
from manager_kinds.apps_v1 import Deployment, DeploymentStatusDict
from manager_kinds.core_v1 import Pod


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "c", "state": state}, {"name": "d", "state": {"running": {}}}]}


def conditions(**kinds: str) -> dict[str, Any]:
    return {
        "conditions": [
            {"type": kind, "status": "False" if why else "True", "reason": why, "message": f"{why}!"}
            for kind, why in kinds.items()
        ]
    }


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (waiting("ImagePullBackOff", "Back-off pulling"), ["ImagePullBackOff: Back-off pulling"]),
        (waiting("ContainerCreating"), ["ContainerCreating"]),
        (waiting("CrashLoopBackOff") | conditions(Ready="NotReady"), ["CrashLoopBackOff"]),
        (conditions(PodScheduled="Unschedulable"), ["Unschedulable: Unschedulable!"]),
        (conditions(PodScheduled="", Ready="NotReady"), ["NotReady: NotReady!"]),
        (conditions(PodScheduled="", Ready=""), []),
        ({"phase": "Pending"}, ["Pending: no node has taken it yet"]),
        ({}, ["Pending: no node has taken it yet"]),
    ],
)
def test_pod_reasons_lists_the_most_telling_reasons_of_a_pod(status: dict[str, Any], expected: list[str]):
    assert list(pod_reasons(Pod(metadata=ObjectMeta(name="p"), status=status))) == expected


@pytest.mark.parametrize(
    ("observed", "updated", "ready", "expected"),
    [(2, 2, 2, 2), (2, 1, 2, 1), (2, 2, 1, 1), (1, 2, 2, 0)],
)
def test_replicas_of_an_earlier_spec_do_not_count(observed: int, updated: int, ready: int, expected: int):
    status: DeploymentStatusDict = {
        "observedGeneration": observed,
        "updatedReplicas": updated,
        "readyReplicas": ready,
        "conditions": [{"type": "Available", "status": "True"}],
    }
    assert ready_replicas(Deployment(metadata=ObjectMeta(generation=2), status=status)) == expected
