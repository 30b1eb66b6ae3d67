"""Alerts and dashboards use existing metrics, and every alert has a runbook."""

from __future__ import annotations

import functools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase

from manager.telemetry.metrics import Metrics
from petstore.metrics import ServerMetrics
from tests.support import ROOT
from tests.support.manifests import rule_groups, write_rules
from tests.support.tools import output_of, tool

CASES = Path(__file__).with_name("alerts.yaml")
ALERTS: list[dict[str, Any]] = [rule for group in rule_groups() for rule in group["rules"]]
DASHBOARD = json.loads((ROOT / "config/grafana/operator-manager.json").read_text())
QUERIES = [
    *(rule["expr"] for rule in ALERTS),
    *(target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())),
]
# A name before the brace of a selector is a metric.
METRIC = re.compile(r"([a-z_:][a-z0-9_:]*)\{")
# Labels and metrics that Prometheus adds to every target, and metrics that exist only on Linux.
TARGET = {"job", "namespace", "pod", "instance"}
ELSEWHERE = {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}
_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}


@functools.cache
def measured() -> dict[str, set[str]]:
    """Return the labels of every metric series that the programs can export, by the name of the series."""
    found: dict[str, set[str]] = {}
    # `collect` omits families without samples, so this reads the registered collectors.
    for registry in (Metrics().registry, ServerMetrics().registry):
        for collector in set(registry._names_to_collectors.values()):
            for family in collector.describe() if isinstance(collector, MetricWrapperBase) else ():
                for suffix in _SUFFIXES.get(family.type, ("",)):
                    more = {"le"} if suffix == "_bucket" else set[str]()
                    found[family.name + suffix] = {*collector._labelnames, *more}
    return found


def grouped_by(query: str) -> set[str]:
    return {label.strip() for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(",")}


@pytest.mark.parametrize("query", QUERIES)
def test_dashboard_and_alert_queries_use_only_existing_metrics_and_labels(query: str):
    known = measured()
    named = set(METRIC.findall(query))
    assert named
    assert named - ELSEWHERE <= known.keys()
    allowed = TARGET | {label for name in named - ELSEWHERE for label in known[name]}
    grouped = grouped_by(query)
    selected = set(re.findall(r"([a-z_]+)\s*=~?\"", query))
    assert grouped | selected <= allowed


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_alert_has_a_severity_a_description_and_a_runbook_section(rule: dict[str, Any]):
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert {"summary", "description", "runbook"} <= rule["annotations"].keys()
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert anchor == rule["alert"].lower()
    headings = re.findall(r"^## (\S+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert rule["alert"] in headings


def test_alert_rules_pass_the_promtool_unit_tests(tmp_path: Path):
    write_rules(tmp_path / "rules.yml")
    shutil.copy(CASES, tmp_path)
    output_of(tool("promtool"), "test", "rules", tmp_path / CASES.name)


def test_promtool_unit_tests_show_every_alert_first_silent_and_later_firing():
    fired = set[str]()
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        samples = [str(each.get("exp_samples", [])) for each in case["promql_expr_test"]]
        first, *later = [set(re.findall(r'alertname="(\w+)"', each)) for each in samples]
        fired |= set().union(*later) - first
    assert fired == {rule["alert"] for rule in ALERTS}
