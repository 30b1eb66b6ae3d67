"""The overlay config/autoscaling: its autoscaler, metric rule and Deployment match the program."""

from __future__ import annotations

from typing import Any

import yaml

from manager.telemetry.metrics import Metrics
from tests.support import ROOT
from tests.support.manifests import MANAGER, SYSTEM, flags_of, manifests, the
from tests.support.settings import load_settings, parse_flags

OVERLAY = "autoscaling"
RULES = yaml.safe_load((ROOT / "config" / OVERLAY / "prometheus_adapter_values.yaml").read_text())["rules"]


def autoscaler() -> dict[str, Any]:
    return the("HorizontalPodAutoscaler", MANAGER, OVERLAY)


def test_autoscaling_overlay_adds_an_autoscaler_to_the_shards_overlay_and_omits_replicas():
    scaled = manifests(OVERLAY)
    scaled.remove(autoscaler())
    fixed = manifests("shards")
    (deployment,) = [
        each for each in fixed if each["kind"] == "Deployment" and each["metadata"]["name"] == MANAGER
    ]
    del deployment["spec"]["replicas"]
    assert scaled == fixed


def test_autoscaler_limits_manager_replicas_to_a_third_of_the_shard_count():
    target = autoscaler()["spec"]["scaleTargetRef"]
    deployment = the(target["kind"], target["name"], OVERLAY)
    assert deployment["apiVersion"] == target["apiVersion"]
    assert autoscaler()["metadata"]["namespace"] == deployment["metadata"]["namespace"] == SYSTEM
    settings = load_settings(parse_flags(flags_of(deployment)))
    assert autoscaler()["spec"]["minReplicas"] > 1
    assert autoscaler()["spec"]["maxReplicas"] * 3 <= settings.shards


def test_prometheus_adapter_rule_selects_a_metric_that_the_manager_exports():
    (rule,) = RULES["external"]
    (metric,) = autoscaler()["spec"]["metrics"]
    assert metric["external"]["metric"] == {"name": rule["name"]["as"]}
    series, _, selector = rule["seriesQuery"].partition("{")
    assert series in Metrics().registry._names_to_collectors
    # config/prometheus defines the job's name, and the label `namespace` names the pod's namespace.
    assert selector == 'job="operator-manager",namespace!=""}'
    assert rule["resources"] == {"overrides": {"namespace": {"resource": "namespace"}}}
    matchers = "<<.Series>>{" + selector.partition(",")[0] + ",<<.LabelMatchers>>}"
    assert rule["metricsQuery"] == f"max by (<<.GroupBy>>) (avg_over_time({matchers}[2m]))"
