"""Rules of individual built-in kinds that no recording of a real server shows."""

from __future__ import annotations

import copy
import datetime
import json
import random
from pathlib import Path
from typing import Any

import pytest

from devcluster.builtin import initial_objects, resources
from devcluster.builtin.policies import convert_autoscalers
from devcluster.builtin.services import ServiceStrategy
from devcluster.clock import Clock
from devcluster.http_call import User
from devcluster.kinds.ages import age, human_duration
from devcluster.kinds.resource import Resource
from devcluster.kinds.strategy import Context
from devcluster.storage import Key, Store

Json = dict[str, Any]
NOW = "2026-01-31T12:00:00Z"


def found(name: str) -> Resource:
    return next(each for each in resources() if each.name == name)


def context() -> Context:
    return Context(store=Store(), now=NOW, user=User("u"))


def pod(**spec: Any) -> Json:
    new = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a"}], **spec}}
    strategy = found("pods").strategy
    strategy.default(new)
    strategy.prepare_create(new, context())
    return new


@pytest.mark.parametrize("resource", resources(), ids=lambda each: each.name)
def test_defaulting_of_every_builtin_kind_is_idempotent(resource: Resource):
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
def test_pod_grace_period_follows_request_and_spec_but_is_zero_when_unscheduled_or_ended(
    spec: Json, phase: str, asked: int | None, seconds: int
):
    one = pod(**spec)
    one["status"]["phase"] = phase
    assert found("pods").strategy.grace_period(one, asked) == seconds


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


async def test_autoscaler_is_unchanged_after_conversion_to_v1_and_back():
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    obj = autoscaler(metrics=[CPU, MEMORY], behavior=behavior)
    obj["status"]["conditions"] = [{"type": "AbleToScale", "status": "True"}]
    old = await converted(obj, "v1")
    assert old["metadata"]["annotations"].keys() > {"autoscaling.alpha.kubernetes.io/metrics", "own"}
    assert await converted(old, "v2") == obj


async def test_autoscaler_conversion_drops_a_metrics_annotation_with_invalid_json():
    old = await converted(autoscaler(metrics=[CPU]), "v1")
    old["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"] = "{"
    assert await converted(old, "v2") == autoscaler(metrics=[CPU])


HOUR, DAY = 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR + 60, "3h1m"),
        (8 * HOUR, "8h"),
        (47 * HOUR, "47h"),
        (49 * HOUR, "2d1h"),
        (8 * DAY + HOUR, "8d"),
        (731 * DAY, "2y1d"),
        (8 * 365 * DAY + DAY, "8y"),
    ],
)
def test_human_duration_formats_seconds_like_the_real_server(seconds: int, shown: str):
    assert human_duration(seconds) == shown


def test_age_is_formatted_as_text_and_unknown_for_a_missing_or_invalid_time():
    now = datetime.datetime(2026, 1, 31, 12, 0, 0, tzinfo=datetime.UTC)
    assert age("2026-01-31T11:59:00Z", now) == "60s"
    assert age("2026-01-31T11:59:59.500000Z", now) == "0s"
    assert age(None, now) == "<unknown>"
    assert age("soon", now) == "<unknown>"


class Services:
    """A pair: a store that contains the Service `kubernetes`, and the strategy that prepares new Services."""

    def __init__(self) -> None:
        self.store = Store()
        self.strategy = ServiceStrategy(Clock(), random.Random(1))
        (service,) = (each for each in initial_objects(NOW) if each["kind"] == "Service")
        self.store.create(Key("", "services", "default", "kubernetes"), service)

    def create(self, name: str, spec: Json) -> Json:
        """Return the spec of a new Service with its addresses and ports, without storing the Service."""
        new: Json = {"metadata": {"name": name, "namespace": "n"}, "spec": copy.deepcopy(spec)}
        context = Context(store=self.store, now=NOW, user=User("u"))
        self.strategy.default(new)
        self.strategy.prepare_create(new, context)
        assert self.strategy.validate_create(new, context) == []
        self.strategy.commit(new, None, context)
        return new["spec"]


def test_service_address_stays_free_when_the_service_is_not_stored():
    services = Services()
    spec = {"type": "NodePort", "clusterIP": "10.96.4.4", "ports": [{"port": 80, "nodePort": 30007}]}
    services.create("failed", spec)
    assert services.create("s", spec)["clusterIP"] == "10.96.4.4"


def test_service_gets_a_distinct_node_port_for_each_port():
    ports = [{"name": f"p{number}", "port": 1000 + number} for number in range(50)]
    spec = Services().create("s", {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports})
    given = [*(each["nodePort"] for each in spec["ports"]), spec["healthCheckNodePort"]]
    assert len(set(given)) == 51


def test_builtin_resources_have_the_plural_and_scope_declared_in_manager_kinds():
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
