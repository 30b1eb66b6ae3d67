"""docs/metrics.md has every family, as it is."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from controllers.petstore.pet import calls_counted
from manager.metrics import QUEUE_BUCKETS, RECONCILE_BUCKETS, REQUEST_BUCKETS, Metrics
from tests.support.metrics_page import Family, documented


@pytest.fixture(scope="module")
def page() -> str:
    metrics = Metrics()
    for collector in vars(metrics).values():
        if not isinstance(collector, CollectorRegistry):
            names = collector._labelnames
            child = collector.labels(*names) if names else collector
            observe = getattr(child, "observe", None) or child.inc
            observe(1)
    return (generate_latest(metrics.registry) + generate_latest(metrics.process_registry)).decode()


def test_every_family_says_what_it_is(page: str):
    families = list(text_string_to_metric_families(page))
    assert all(family.documentation for family in families)
    assert page.count("# HELP ") == page.count("# TYPE ") == len(families)


def test_no_family_has_a_second_one_of_creation_times(page: str):
    assert "_created" not in page


@pytest.mark.parametrize(
    ("buckets", "first", "last", "count"),
    [
        (RECONCILE_BUCKETS, 0.005, 60, 40),
        (QUEUE_BUCKETS, 1e-08, 1000, 12),
        (REQUEST_BUCKETS, 0.005, 60, 12),
    ],
)
def test_buckets_are_those_of_the_go_libraries(
    buckets: tuple[float, ...], first: float, last: float, count: int
):
    assert (buckets[0], buckets[-1], len(buckets)) == (first, last, count)


def test_a_histogram_has_each_observation_in_the_lowest_bucket_that_takes_it():
    metrics = Metrics()
    child = metrics.rest_latency.labels(verb="GET", host="here")
    for _ in range(300):
        child.observe(0.025)
    child.observe(0.026)
    child.observe(100.0)
    labels = {"verb": "GET", "host": "here"}
    name = metrics.rest_latency._name
    for bound, count in {"0.005": 0, "0.025": 300, "0.1": 301, "60.0": 301, "+Inf": 302}.items():
        assert metrics.registry.get_sample_value(f"{name}_bucket", {**labels, "le": bound}) == count
    assert metrics.registry.get_sample_value(f"{name}_count", labels) == 302
    assert metrics.registry.get_sample_value(f"{name}_sum", labels) == pytest.approx(107.526)


def test_two_managers_in_one_process_count_for_themselves():
    one, other = Metrics(), Metrics()
    one.events_total.labels("sent").inc()
    name, labels = "operator_manager_events_total", {"result": "sent"}
    assert one.registry.get_sample_value(name, labels) == 1
    assert other.registry.get_sample_value(name, labels) is None


@pytest.fixture(scope="module")
def registered() -> dict[str, Family]:
    metrics = Metrics()
    calls_counted(metrics.registry)
    return {**_families(metrics.registry), **_families(metrics.process_registry)}


def test_every_family_is_there_with_its_type_and_labels(registered: dict[str, Family]):
    assert dict(documented()) == registered


def test_no_family_is_there_twice():
    names = [name for name, _ in documented()]
    assert len(names) == len(set(names))


def _families(registry: CollectorRegistry) -> dict[str, Family]:
    return {name: family for collector in registry._collector_to_names for name, family in _of(collector)}


def _of(collector: Collector) -> list[tuple[str, Family]]:
    """What a collector collects; its labels are in the collector, or else in its samples."""
    found = []
    for family in collector.collect():
        labels = getattr(collector, "_labelnames", ())
        if not hasattr(collector, "_labelnames"):
            labels = tuple(sorted({label for sample in family.samples for label in sample.labels}))
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found.append((name, (family.type, tuple(labels))))
    return found
