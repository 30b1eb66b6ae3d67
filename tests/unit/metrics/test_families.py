"""docs/metrics.md has every family, as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from controllers.petstore.pet import calls_counted
from manager.metrics import QUEUE_BUCKETS, RECONCILE_BUCKETS, REQUEST_BUCKETS, Metrics

FAMILIES = {
    "controller_runtime_reconcile": ("counter", ("controller", "result")),
    "controller_runtime_reconcile_errors": ("counter", ("controller",)),
    "controller_runtime_terminal_reconcile_errors": ("counter", ("controller",)),
    "controller_runtime_reconcile_panics": ("counter", ("controller",)),
    "controller_runtime_reconcile_timeouts": ("counter", ("controller",)),
    "controller_runtime_reconcile_time_seconds": ("histogram", ("controller",)),
    "controller_runtime_max_concurrent_reconciles": ("gauge", ("controller",)),
    "controller_runtime_active_workers": ("gauge", ("controller",)),
    "controller_runtime_webhook_requests": ("counter", ("webhook", "code")),
    "controller_runtime_webhook_latency_seconds": ("histogram", ("webhook",)),
    "controller_runtime_webhook_requests_in_flight": ("gauge", ("webhook",)),
    "controller_runtime_webhook_panics": ("counter", ()),
    "controller_runtime_conversion_webhook_panics": ("counter", ()),
    "workqueue_depth": ("gauge", ("name", "controller", "priority")),
    "workqueue_adds": ("counter", ("name", "controller")),
    "workqueue_retries": ("counter", ("name", "controller")),
    "workqueue_queue_duration_seconds": ("histogram", ("name", "controller")),
    "workqueue_work_duration_seconds": ("histogram", ("name", "controller")),
    "workqueue_unfinished_work_seconds": ("gauge", ("name", "controller")),
    "workqueue_longest_running_processor_seconds": ("gauge", ("name", "controller")),
    "operator_manager_queue_oldest_key_seconds": ("gauge", ("name", "controller")),
    "operator_manager_queue_next_retry_seconds": ("gauge", ("name", "controller")),
    "rest_client_requests": ("counter", ("code", "method", "host")),
    "rest_client_request_duration_seconds": ("histogram", ("verb", "host")),
    "leader_election_master_status": ("gauge", ("name",)),
    "operator_manager_cache_objects": ("gauge", ("kind", "projection")),
    "operator_manager_cache_bytes": ("gauge", ("kind", "projection")),
    "operator_manager_cache_failures": ("counter", ("kind", "part")),
    "operator_manager_watch_restarts": ("counter", ("kind", "reason")),
    "operator_manager_events": ("counter", ("result",)),
    "operator_manager_failing_objects": ("gauge", ("controller",)),
    "operator_manager_reconciles_skipped": ("counter", ("controller",)),
    "operator_manager_event_to_reconcile_seconds": ("histogram", ("controller",)),
    "operator_manager_event_loop_lag_seconds": ("histogram", ()),
    "operator_manager_build_info": ("gauge", ("program", "version")),
    "operator_manager_event_loop_tasks": ("gauge", ()),
}


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


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_has_the_name_type_and_labels_that_dashboards_know(page: str, name: str):
    kind, labels = FAMILIES[name]
    [family] = [family for family in text_string_to_metric_families(page) if family.name == name]
    assert family.type == kind
    assert family.samples
    for sample in family.samples:
        assert set(sample.labels) - {"le"} == set(labels)


def test_nothing_else_is_recorded_but_what_describes_the_process(page: str):
    others = {family.name for family in text_string_to_metric_families(page)} - FAMILIES.keys()
    assert {"process_resident_memory_bytes", "process_cpu_seconds", "process_open_fds"} <= others
    assert all(name.startswith(("process_", "python_")) for name in others)


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


def test_two_managers_in_one_process_count_for_themselves():
    one, other = Metrics(), Metrics()
    one.events_total.labels("sent").inc()
    name, labels = "operator_manager_events_total", {"result": "sent"}
    assert one.registry.get_sample_value(name, labels) == 1
    assert other.registry.get_sample_value(name, labels) is None


PAGE = Path("docs/metrics.md")
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| (.+) \|$", re.MULTILINE)
Family = tuple[str, tuple[str, ...]]
"""A type and the names of the labels."""


@pytest.fixture(scope="module")
def registered() -> dict[str, Family]:
    metrics = Metrics()
    calls_counted(metrics.registry)
    return {**_families(metrics.registry), **_families(metrics.process_registry)}


def test_every_family_is_there_with_its_type_and_labels(registered: dict[str, Family]):
    documented = {
        name: (kind, tuple(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels, _ in ROW.findall(PAGE.read_text())
    }
    assert documented == registered


def test_no_family_is_there_twice():
    names = [name for name, *_ in ROW.findall(PAGE.read_text())]
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
