from __future__ import annotations

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from manager import series

BUCKETS = (0.1, 1.0, 10.0)
AMOUNTS = (0.0, 0.1, 0.11, 1.0, 5.0, 10.0, 11.0)


@pytest.fixture(autouse=True)
def no_created_series():
    prometheus_client.disable_created_metrics()


def test_a_counter_is_exposed_as_the_librarys_own():
    def exposed(kind: type[prometheus_client.Counter]) -> bytes:
        registry = CollectorRegistry()
        counter = kind("things", "Things.", ("of",), registry=registry)
        counter.labels("a").inc()
        counter.labels(of="a").inc(2.5)
        counter.labels("b")
        return generate_latest(registry)

    assert exposed(series.Counter) == exposed(prometheus_client.Counter)


@pytest.mark.parametrize("labels", [(), ("of",)])
def test_a_histogram_is_exposed_as_the_librarys_own(labels: tuple[str, ...]):
    def exposed(kind: type[prometheus_client.Histogram]) -> bytes:
        registry = CollectorRegistry()
        family = kind("time", "Time.", labels, registry=registry, buckets=BUCKETS)
        histogram = family.labels("a") if labels else family
        for amount in AMOUNTS:
            histogram.observe(amount)
        return generate_latest(registry)

    assert exposed(series.Histogram) == exposed(prometheus_client.Histogram)
