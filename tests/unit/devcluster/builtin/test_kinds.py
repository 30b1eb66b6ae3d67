"""Peculiarities of single kinds beyond the real server's recorded answers."""

from __future__ import annotations

import contextlib
import copy
import datetime
import ipaddress
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.builtin import initial_objects, resources
from devcluster.builtin.policies import convert_autoscalers
from devcluster.builtin.services import ServiceStrategy
from devcluster.clock import Clock
from devcluster.errors import FieldError, StatusError
from devcluster.http_call import User
from devcluster.kinds.ages import age, human_duration
from devcluster.kinds.resource import Resource
from devcluster.kinds.strategy import Context
from devcluster.storage import Key, Store
from tests.recordings.builtin import objects

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
def test_defaulting_is_idempotent_for_every_resource(resource: Resource):
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
def test_pod_defaults_include_a_termination_grace_period(
    spec: Json, phase: str, asked: int | None, seconds: int
):
    one = pod(**spec)
    one["status"]["phase"] = phase
    assert found("pods").strategy.grace_period(one, asked) == seconds


def test_bound_persistent_volume_claim_may_request_more_storage():
    strategy = found("persistentvolumeclaims").strategy
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "storageClassName": "x",
        "volumeName": "v",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    old: Json = {
        "metadata": {"name": "a"},
        "spec": spec,
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    }
    smaller, larger = (
        strategy.validate_update(
            {**old, "spec": {**spec, "resources": {"requests": {"storage": size}}}}, old, context()
        )
        for size in ("512Mi", "2Gi")
    )
    assert larger == []
    assert [each.text for each in smaller] == ["Forbidden: field can not be less than status.capacity"]


def test_generation_changes_only_with_the_spec():
    strategy = found("deployments.apps").strategy
    old: Json = {"metadata": {"name": "a", "generation": 3}, "spec": {"replicas": 1}, "status": {}}
    strategy.default(old)
    same, other = copy.deepcopy(old), copy.deepcopy(old)
    same["metadata"]["labels"] = {"a": "b"}
    other["spec"]["replicas"] = 2
    strategy.prepare_update(same, old, context())
    strategy.prepare_update(other, old, context())
    assert (same["metadata"]["generation"], other["metadata"]["generation"]) == (3, 4)


def test_table_row_shows_0_for_a_missing_status_number():
    new: Json = {"metadata": {"name": "a"}, "status": {"replicas": -2, "readyReplicas": -1}}
    errors = found("replicasets.apps").strategy.validate_status_update(new, new, context("status"))
    assert {each.text for each in errors if each.field == "status.availableReplicas"} == {
        "Invalid value: 0: cannot be greater than status.replicas",
        "Invalid value: 0: cannot be greater than readyReplicas",
    }


def test_pod_with_duplicate_container_ports_gets_a_warning():
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


async def test_autoscaler_v1_has_the_cpu_target_in_its_own_field():
    old = await converted(autoscaler(metrics=[CPU]), "v1")
    assert old["spec"] == {"maxReplicas": 5, "targetCPUUtilizationPercentage": 70}
    assert old["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    assert old["metadata"]["annotations"] == {"own": "one"}


async def test_autoscaler_survives_conversion_to_v1_and_back():
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    obj = autoscaler(metrics=[CPU, MEMORY], behavior=behavior)
    obj["status"]["conditions"] = [{"type": "AbleToScale", "status": "True"}]
    old = await converted(obj, "v1")
    assert old["metadata"]["annotations"].keys() > {"autoscaling.alpha.kubernetes.io/metrics", "own"}
    assert await converted(old, "v2") == obj


@pytest.mark.parametrize(("version", "other"), [("v1", "v2"), ("v2", "v1")])
async def test_autoscaler_without_metadata_can_be_converted(version: str, other: str):
    part = {"kind": "HorizontalPodAutoscaler", "apiVersion": f"autoscaling/{version}"}
    answer = await converted(part, other)
    assert (answer["apiVersion"], answer["metadata"]) == (f"autoscaling/{other}", {})


async def test_autoscaler_conversion_drops_an_annotation_with_invalid_json():
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
def test_human_duration_is_shortened_as_the_real_server_does(seconds: int, shown: str):
    assert human_duration(seconds) == shown


def test_age_reads_times_with_and_without_fractions_of_a_second():
    now = datetime.datetime(2026, 1, 31, 12, 0, 0, tzinfo=datetime.UTC)
    assert age("2026-01-31T11:59:00Z", now) == "60s"
    assert age("2026-01-31T11:59:59.500000Z", now) == "0s"
    assert age(None, now) == "<unknown>"
    assert age("soon", now) == "<unknown>"


RESOURCES = {each.name: each for each in resources()}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, each in value.items():
            if path or key not in {"apiVersion", "kind", "metadata"}:
                yield (*path, key)
                yield from places(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from places(each, (*path, index))


def damaged(obj: Json, path: tuple[Any, ...]) -> Iterator[Json]:
    """Yield the object with the field at `path` removed, then empty, then null."""
    for replacement in ("gone", "empty", "null"):
        copied = copy.deepcopy(obj)
        at: Any = copied
        for step in path[:-1]:
            at = at[step]
        old = at[path[-1]]
        if replacement == "gone":
            del at[path[-1]]
        elif isinstance(old, list | dict):
            at[path[-1]] = type(old)() if replacement == "empty" else None
        else:
            continue
        yield copied


@pytest.mark.parametrize("case", objects(), ids=lambda each: each["name"])
def test_strategies_raise_only_declared_errors_for_damaged_objects(case: Json):
    resource = RESOURCES[case["resource"]]
    strategy, sent, old = resource.strategy, case["sent"], case.get("old")
    context = Context(store=Store(), now=NOW, user=User("u"))
    for path in list(places(sent)):
        for new in damaged(sent, path):
            with contextlib.suppress(StatusError):
                strategy.default(new)
                strategy.row(new)
                if old is None:
                    strategy.prepare_create(new, context)
                    errors = strategy.validate_create(new, context)
                else:
                    strategy.prepare_update(new, old, context)
                    errors = strategy.validate_update(new, old, context)
                assert all(isinstance(error, FieldError) for error in errors)
                strategy.warnings(new, old)
                if not errors:
                    strategy.commit(new, old, context)
                strategy.row(new)
                strategy.fields(new)


class Cluster:
    """A store with services in it, and their strategy."""

    def __init__(self, seed: int = 1) -> None:
        self.store = Store()
        self.strategy = ServiceStrategy(Clock(), random.Random(seed))
        (service,) = (each for each in initial_objects(NOW) if each["kind"] == "Service")
        self.store.create(Key("", "services", "default", "kubernetes"), service)

    def create(self, name: str, spec: Json, *, stored: bool = True) -> Json:
        new: Json = {"metadata": {"name": name, "namespace": "n"}, "spec": copy.deepcopy(spec)}
        context = Context(store=self.store, now=NOW, user=User("u"))
        self.strategy.default(new)
        self.strategy.prepare_create(new, context)
        assert self.strategy.validate_create(new, context) == []
        self.strategy.commit(new, None, context)
        if stored:
            self.store.create(Key("", "services", "n", name), new)
        return new["spec"]


PORTS = [{"port": 80}]


def test_services_get_distinct_cluster_ips():
    cluster = Cluster()
    addresses = [cluster.create(f"s{number}", {"ports": PORTS})["clusterIP"] for number in range(300)]
    assert len(set(addresses)) == 300
    network = ipaddress.ip_network("10.96.0.0/16")
    assert all(ipaddress.ip_address(each) in network for each in addresses)


def test_same_seed_allocates_the_same_service_addresses():
    one, other = (Cluster(7).create("s", {"type": "NodePort", "ports": PORTS}) for _ in range(2))
    assert one == other


def test_failed_write_allocates_no_service_address():
    cluster = Cluster()
    spec = {"type": "NodePort", "clusterIP": "10.96.4.4", "ports": [{"port": 80, "nodePort": 30007}]}
    cluster.create("failed", spec, stored=False)
    assert cluster.create("s", spec)["clusterIP"] == "10.96.4.4"


def test_service_gets_distinct_node_ports():
    ports = [{"name": f"p{number}", "port": 1000 + number} for number in range(50)]
    spec = Cluster().create("s", {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports})
    given = [*(each["nodePort"] for each in spec["ports"]), spec["healthCheckNodePort"]]
    assert len(set(given)) == 51


def test_service_addresses_are_allocated_separately_for_each_store():
    cluster, other = Cluster(), Cluster()
    cluster.create("s", {"clusterIP": "10.96.4.4", "ports": PORTS})
    cluster.store = other.store
    cluster.create("s", {"clusterIP": "10.96.4.4", "ports": PORTS})


def test_resources_have_the_plural_and_scope_that_manager_kinds_declares():
    served = {(each.group, each.version, each.kind): (each.plural, each.namespaced) for each in resources()}
    found = {}
    for path in (Path(__file__).parents[4] / "manager_kinds").glob("*.json"):
        for name, entry in json.loads(path.read_text()).items():
            if (kind := entry.get("kind")) is not None:
                key = (kind.get("group", ""), kind["version"], name)
                found[key] = (kind["plural"], kind.get("namespaced", True))
    both = served.keys() & found.keys()
    assert ("apiregistration.k8s.io", "v1", "APIService") in both
    assert {key: served[key] for key in both} == {key: found[key] for key in both}
