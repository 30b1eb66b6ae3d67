"""What is particular to single kinds, beyond what single answers of the real server tell."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from devcluster.builtin import resources
from devcluster.builtin.events import convert_events
from devcluster.exchange import User
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


async def test_events_are_converted_both_ways() -> None:
    core: Json = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {},
        "message": "m",
        "source": {"host": "h"},
    }
    (new,) = await convert_events([core], "events.k8s.io/v1")
    assert (new["note"], new["deprecatedSource"]) == ("m", {"host": "h"})
    (back,) = await convert_events([new], "v1")
    assert (back["message"], back["source"], back["reportingComponent"]) == ("m", {"host": "h"}, "")


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
