"""Metric families of the manager: their exposition, their documentation, and their observers."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from controllers.petstore.pet import calls_counted
from manager.telemetry.metrics import Metrics, counting, observing
from tests.support.metrics import Family, documented


def test_exposition_has_help_and_type_of_each_metric_family_and_no_created_samples():
    metrics = Metrics()
    for collector in vars(metrics).values():
        if not isinstance(collector, CollectorRegistry):
            names = collector._labelnames
            child = collector.labels(*names) if names else collector
            observe = getattr(child, "observe", None) or child.inc
            observe(1)
    page = (generate_latest(metrics.registry) + generate_latest(metrics.process_registry)).decode()
    families = list(text_string_to_metric_families(page))
    assert all(family.documentation for family in families)
    assert page.count("# HELP ") == page.count("# TYPE ") == len(families)
    assert "_created" not in page


def test_documentation_has_exactly_the_registered_metrics_with_types_and_labels():
    metrics, families = Metrics(), list(documented())
    calls_counted(metrics.registry)
    registered = {**_families(metrics.registry), **_families(metrics.process_registry)}
    assert dict(families) == registered
    assert len(families) == len(registered)


def _families(registry: CollectorRegistry) -> dict[str, Family]:
    """Return the metric families; label names come from the samples if the collector declares none."""
    found = {}
    for collector in registry._collector_to_names:
        for family in collector.collect():
            labels = getattr(collector, "_labelnames", None)
            if labels is None:
                labels = sorted({label for sample in family.samples for label in sample.labels})
            name = f"{family.name}_total" if family.type == "counter" else family.name
            found[name] = (family.type, tuple(labels))
    return found


@pytest.mark.parametrize("value", [0.0, 0.005, 0.0051, 60.0, 61.0, -1.0])
def test_metric_observers_record_the_same_samples_as_prometheus_client(value: float):
    quick, slow = Metrics(), Metrics()
    observing(quick.reconcile_time.labels("a"))(value)
    observing(quick.reconcile_time.labels("a"))(value, {"trace_id": "1"})
    counting(quick.reconcile_errors.labels("a"))()
    for exemplar in (None, {"trace_id": "1"}):
        slow.reconcile_time.labels("a").observe(value, exemplar)
    slow.reconcile_errors.labels("a").inc()
    shown, expected = (
        [(each.name, each.labels, each.value, each.exemplar and each.exemplar.labels) for each in samples]
        for samples in (
            [sample for family in metrics.registry.collect() for sample in family.samples]
            for metrics in (quick, slow)
        )
    )
    assert shown == expected
