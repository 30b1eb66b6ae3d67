"""Rules of individual built-in kinds that no recording of a real server shows."""

from __future__ import annotations

import copy
import datetime
import ipaddress
import json
import random
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from devcluster.builtin import resources
from devcluster.builtin.policies import convert_autoscalers
from devcluster.builtin.services import Allocation, ServiceStrategy
from devcluster.clock import Clock
from devcluster.errors import StatusError
from devcluster.http_call import User
from devcluster.kinds.ages import age, human_duration
from devcluster.kinds.field import Field
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


@pytest.mark.parametrize(
    "resource", [each for each in resources() if each.verbs != ("create",)], ids=lambda each: each.name
)
def test_defaulting_of_every_stored_builtin_kind_is_idempotent(resource: Resource):
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


def refusals(cost: str) -> list[int]:
    """Return the number of errors in a create, an update and a status update of a pod with this cost."""
    strategy, old, new = found("pods").strategy, pod(), pod()
    new["metadata"] |= {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}
    checks = (strategy.validate_update, strategy.validate_status_update)
    results = [strategy.validate_create(new, context()), *(check(new, old, context()) for check in checks)]
    path = "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]"
    expected = f'{path}: Invalid value: "{cost}": must be a 32bit integer'
    assert {str(each) for errors in results for each in errors} <= {expected}
    return [len(errors) for errors in results]


@pytest.mark.parametrize("cost", ["0", "-0", "-01", "2147483647", "-2147483648"])
def test_pod_is_valid_when_its_deletion_cost_is_a_32_bit_integer(cost: str):
    assert refusals(cost) == [0, 0, 0]


@pytest.mark.parametrize("cost", ["", "-", "x", "+1", "007", "00", " 1", "1.0", "²", "2147483648", "9" * 30])
def test_pod_is_refused_when_its_deletion_cost_is_malformed(cost: str):
    assert refusals(cost) == [1, 2, 1]


def test_pod_template_is_refused_when_its_deletion_cost_is_malformed():
    annotations = {"controller.kubernetes.io/pod-deletion-cost": "x"}
    template = {"metadata": {"annotations": annotations}, "spec": pod()["spec"]}
    (error,) = found("podtemplates").strategy.validate_create({"template": template}, context())
    assert str(error) == (
        "template.annotations[controller.kubernetes.io/pod-deletion-cost]: "
        'Invalid value: "x": must be a 32bit integer'
    )


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


def test_age_is_unknown_for_a_missing_time_and_invalid_for_any_other_text():
    now = datetime.datetime(2026, 1, 31, 12, 0, 0, tzinfo=datetime.UTC)
    assert age("2026-01-31T11:59:00Z", now) == "60s"
    assert age("2026-01-31T11:59:59.500000Z", now) == "0s"
    assert age(None, now) == "<unknown>"
    assert age("2026-01-31T13:59:00+02:00", now) == "60s"
    for text in ("soon", "2026-01-31", "2026-01-31T12:00:00", "20260131T120000Z", "2026-01-31 12:00:00Z"):
        assert age(text, now) == "<invalid>"


def test_service_gets_a_distinct_node_port_for_each_port():
    ports = [{"name": f"p{number}", "port": 1000 + number} for number in range(3)]
    spec: Json = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports}
    service = {"metadata": {"name": "s", "namespace": "n"}, "spec": spec}
    always_the_same = Mock(spec=random.Random, **{"randrange.return_value": 7})
    strategy = ServiceStrategy(Clock(), always_the_same)
    strategy.default(service)
    strategy.prepare_create(service, context())
    strategy.commit(service, None, context())
    given = [*(each["nodePort"] for each in spec["ports"]), spec["healthCheckNodePort"]]
    assert len(set(given)) == 4


def test_service_allocation_uses_the_static_range_when_the_dynamic_range_is_full(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("devcluster.builtin.services.NODE_PORTS", range(30000, 30088))
    monkeypatch.setattr("devcluster.builtin.services.SERVICE_NETWORK", ipaddress.ip_network("10.96.0.0/23"))
    allocation = Allocation(Store(), random.Random(1))
    ports: list[int] = []
    while len(ports) < 88:
        ports.append(allocation.free_port(set(ports)))
    with pytest.raises(StatusError, match="failed to allocate a nodePort: range is full"):
        allocation.free_port(set(ports))
    assert (set(ports[:2]), sorted(ports)) == ({30086, 30087}, list(range(30000, 30088)))
    addresses: list[str] = []
    for number in range(510):
        addresses.append(allocation.free_address())
        service = {"metadata": {}, "spec": {"clusterIPs": addresses[-1:]}}
        allocation.store.create(Key("", "services", "n", f"s{number}"), service)
    with pytest.raises(StatusError, match="failed to allocate a serviceIP: range is full"):
        allocation.free_address()
    assert len(set(addresses)) == 510
    assert min(map(ipaddress.ip_address, addresses[:254])) == ipaddress.ip_address("10.96.1.1")


@pytest.mark.parametrize("url", ["https://[::1", "https://[x]/", "https://a:b/"])
def test_webhook_url_that_cannot_be_parsed_is_an_error_of_its_field(url: str):
    config = Field({"url": url})
    config["url"].check_https()
    (error,) = config.errors
    assert str(error).startswith(f'url: Required value: url must be a valid URL: parse "{url}": ')


@pytest.mark.parametrize(
    ("network", "problem"),
    [
        ("10.0.0.5/16", "must not have bits set beyond the prefix length"),
        ("10.0.0.0", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
        ("garbage", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
    ],
)
def test_node_is_refused_when_its_pod_network_is_invalid(network: str, problem: str):
    node: Json = {"metadata": {"name": "n"}, "spec": {"podCIDR": network}}
    strategy = found("nodes").strategy
    strategy.default(node)
    strategy.prepare_create(node, context())
    (error,) = strategy.validate_create(node, context())
    assert str(error) == f'spec.podCIDRs[0]: Invalid value: "{network}": {problem}'


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
