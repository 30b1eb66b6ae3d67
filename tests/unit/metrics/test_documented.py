"""docs/metrics.md has every family, as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from controllers.petstore.pet import calls_counted
from manager.metrics import Metrics

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
