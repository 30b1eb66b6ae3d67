"""What is particular to single kinds, beyond what single answers of the real server tell."""

from __future__ import annotations

import copy
import datetime
from typing import Any

import pytest

from devcluster.builtin import resources
from devcluster.builtin.autoscaling_v1 import convert_autoscalers
from devcluster.exchange import User
from devcluster.kinds.ages import age, human_duration
from devcluster.kinds.resource import Resource
from devcluster.kinds.strategy import Context
from devcluster.storage import Store

Json = dict[str, Any]
NOW = "2026-01-31T12:00:00Z"


def found(name: str) -> Resource:
    return next(each for each in resources() if each.name == name)


def context(subresource: str = "") -> Context:
    return Context(store=Store(), now=NOW, user=User("u"), subresource=subresource)


def pod(**spec: Any) -> Json:
    new = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a"}], **spec}}
    strategy = found("pods").strategy
    strategy.default(new)
    strategy.prepare_create(new, context())
    return new


@pytest.mark.parametrize("resource", resources(), ids=lambda each: each.name)
def test_defaults_stay_as_they_are_when_given_again(resource: Resource) -> None:
    if resource.verbs == ("create",):
        return
    obj: Json = {"metadata": {"name": "a"}}
    resource.strategy.default(obj)
    once = copy.deepcopy(obj)
    resource.strategy.default(obj)
    assert obj == once


@pytest.mark.parametrize(
    ("spec", "phase", "asked", "seconds"),
    [
        ({}, "Pending", None, 0),
        ({"nodeName": "n"}, "Running", None, 30),
        ({"nodeName": "n"}, "Running", 5, 5),
        ({"nodeName": "n"}, "Running", 0, 0),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 3}, "Running", None, 3),
        ({"nodeName": "n"}, "Succeeded", 5, 0),
        ({"nodeName": "n", "terminationGracePeriodSeconds": -1}, "Running", None, 1),
    ],
)
def test_a_pod_is_given_time_to_end(spec: Json, phase: str, asked: int | None, seconds: int) -> None:
    one = pod(**spec)
    one["status"]["phase"] = phase
    assert found("pods").strategy.grace_period(one, asked) == seconds


def test_pods_are_found_by_where_they_run_and_how_they_are() -> None:
    one = pod(nodeName="n")
    fields = found("pods").strategy.fields(one)
    assert (fields["spec.nodeName"], fields["status.phase"], fields["spec.hostNetwork"]) == (
        "n",
        "Pending",
        "false",
    )


def test_the_finalizers_of_a_namespace_change_by_their_subresource_alone() -> None:
    strategy = found("namespaces").strategy
    old: Json = {
        "metadata": {"name": "a"},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
    new: Json = {"metadata": {"name": "a"}, "spec": {"finalizers": []}, "status": {"phase": "Terminating"}}
    updated, finalized = copy.deepcopy(new), copy.deepcopy(new)
    strategy.prepare_update(updated, old, context())
    assert updated["spec"] == old["spec"]
    strategy.prepare_update(finalized, old, context("finalize"))
    assert (finalized["spec"], finalized["status"]) == ({}, old["status"])


def test_a_bound_claim_may_grow() -> None:
    strategy = found("persistentvolumeclaims").strategy
    old: Json = {
        "metadata": {"name": "a"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "storageClassName": "x",
            "volumeName": "v",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    }
    new = copy.deepcopy(old)
    new["spec"]["resources"]["requests"]["storage"] = "2Gi"
    assert strategy.validate_update(new, old, context()) == []
    new["spec"]["resources"]["requests"]["storage"] = "512Mi"
    (error,) = strategy.validate_update(new, old, context())
    assert error.text == "Forbidden: field can not be less than status.capacity"


def test_generation_follows_the_specification_alone() -> None:
    strategy = found("deployments.apps").strategy
    old: Json = {"metadata": {"name": "a", "generation": 3}, "spec": {"replicas": 1}, "status": {}}
    strategy.default(old)
    same, other = copy.deepcopy(old), copy.deepcopy(old)
    same["metadata"]["labels"] = {"a": "b"}
    other["spec"]["replicas"] = 2
    strategy.prepare_update(same, old, context())
    strategy.prepare_update(other, old, context())
    assert (same["metadata"]["generation"], other["metadata"]["generation"]) == (3, 4)


def test_ports_that_clash_are_warned_of() -> None:
    one = pod(containers=[{"name": name, "image": "a", "ports": [{"containerPort": 80}]} for name in "ab"])
    assert found("pods").strategy.warnings(one, None) == [
        "spec.containers[1].ports[0]: duplicate port definition with spec.containers[0].ports[0]"
    ]


CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}},
}
MEMORY = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "60Mi"}},
}


def autoscaler(**spec: Any) -> dict[str, Any]:
    return {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": "a", "annotations": {"own": "one"}},
        "spec": {"maxReplicas": 5, **spec},
        "status": {"currentMetrics": None, "desiredReplicas": 0},
    }


async def converted(obj: dict[str, Any], version: str) -> dict[str, Any]:
    (answer,) = await convert_autoscalers([obj], f"autoscaling/{version}")
    return answer


async def test_the_use_of_the_processor_has_a_field_of_its_own():
    old = await converted(autoscaler(metrics=[CPU]), "v1")
    assert old["spec"] == {"maxReplicas": 5, "targetCPUUtilizationPercentage": 70}
    assert old["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    assert old["metadata"]["annotations"] == {"own": "one"}


async def test_nothing_is_lost_on_the_way_to_the_old_version_and_back():
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    obj = autoscaler(metrics=[CPU, MEMORY], behavior=behavior)
    obj["status"]["conditions"] = [{"type": "AbleToScale", "status": "True"}]
    old = await converted(obj, "v1")
    assert old["metadata"]["annotations"].keys() > {"autoscaling.alpha.kubernetes.io/metrics", "own"}
    assert await converted(old, "v2") == obj


async def test_an_annotation_that_is_no_json_is_dropped():
    old = await converted(autoscaler(metrics=[CPU]), "v1")
    old["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"] = "{"
    assert await converted(old, "v2") == autoscaler(metrics=[CPU])


HOUR, DAY = 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 60, "3h1m"),
        (8 * HOUR, "8h"),
        (47 * HOUR, "47h"),
        (48 * HOUR, "2d"),
        (49 * HOUR, "2d1h"),
        (8 * DAY + HOUR, "8d"),
        (729 * DAY, "729d"),
        (730 * DAY, "2y"),
        (731 * DAY, "2y1d"),
        (8 * 365 * DAY + DAY, "8y"),
    ],
)
def test_duration(seconds: int, shown: str) -> None:
    assert human_duration(seconds) == shown


def test_age_of_times_of_both_forms() -> None:
    now = datetime.datetime(2026, 1, 31, 12, 0, 0, tzinfo=datetime.UTC)
    assert age("2026-01-31T11:59:00Z", now) == "60s"
    assert age("2026-01-31T11:59:59.500000Z", now) == "0s"
    assert age(None, now) == "<unknown>"
    assert age("soon", now) == "<unknown>"
