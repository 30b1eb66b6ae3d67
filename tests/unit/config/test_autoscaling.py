"""Autoscaling of managers by queue length: its parts match each other and the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from manager.telemetry.metrics import Metrics
from tests.support import ROOT
from tests.support.manifests import MANAGER, SYSTEM, flags_of, manifests, the
from tests.support.settings import load_settings, parse_flags
from tests.support.tools import output_of, tool

OVERLAY = "autoscaling"
RULES = yaml.safe_load((ROOT / "config" / OVERLAY / "prometheus_adapter_values.yaml").read_text())["rules"]


def autoscaler() -> dict[str, Any]:
    return the("HorizontalPodAutoscaler", MANAGER, OVERLAY)


def test_autoscaling_overlay_equals_the_shards_overlay_without_replicas():
    scaled = manifests(OVERLAY)
    scaled.remove(autoscaler())
    fixed = manifests("shards")
    (deployment,) = [
        each for each in fixed if each["kind"] == "Deployment" and each["metadata"]["name"] == MANAGER
    ]
    del deployment["spec"]["replicas"]
    assert scaled == fixed


def test_autoscaler_limits_manager_replicas_to_a_third_of_the_shards():
    target = autoscaler()["spec"]["scaleTargetRef"]
    deployment = the(target["kind"], target["name"], OVERLAY)
    assert deployment["apiVersion"] == target["apiVersion"]
    assert autoscaler()["metadata"]["namespace"] == deployment["metadata"]["namespace"] == SYSTEM
    settings = load_settings(parse_flags(flags_of(deployment)))
    assert autoscaler()["spec"]["minReplicas"] > 1
    assert autoscaler()["spec"]["maxReplicas"] * 3 <= settings.shards


def test_autoscaler_metric_rule_selects_a_metric_that_the_manager_exports():
    (rule,) = RULES["external"]
    (metric,) = autoscaler()["spec"]["metrics"]
    assert metric["external"]["metric"] == {"name": rule["name"]["as"]}
    series, _, selector = rule["seriesQuery"].partition("{")
    assert series in Metrics().registry._names_to_collectors
    # The monitors define the job's name, and the label has the pod's namespace.
    assert selector == 'job="operator-manager",namespace!=""}'
    assert rule["resources"] == {"overrides": {"namespace": {"resource": "namespace"}}}


CASES = """\
rule_files: [rules.yaml]
tests:
- interval: 1m
  input_series:
  - {series: '%(series)s{%(labels)s,pod="a",controller="foo"}', values: 0+0x10}
  - {series: '%(series)s{%(labels)s,pod="b",controller="foo"}', values: 60+0x10}
  promql_expr_test:
  - {expr: '%(query)s', eval_time: 10m, exp_samples: [{labels: '{%(namespace)s}', value: 60}]}
"""


def test_autoscaler_metric_query_returns_the_oldest_key_of_all_managers(tmp_path: Path):
    (rule,) = RULES["external"]
    series, namespace = rule["seriesQuery"].partition("{")[0], f'namespace="{SYSTEM}"'
    query = rule["metricsQuery"].replace("<<.Series>>", series).replace("<<.GroupBy>>", "namespace")
    values = {
        "series": series,
        "query": query.replace("<<.LabelMatchers>>", namespace),
        "labels": f'{namespace},job="operator-manager"',
        "namespace": namespace,
    }
    (tmp_path / "rules.yaml").write_text("groups: []\n")
    (tmp_path / "cases.yaml").write_text(CASES % values)
    output_of(tool("promtool"), "test", "rules", tmp_path / "cases.yaml")
