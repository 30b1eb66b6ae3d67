"""/metrics, /healthz and /readyz, as a Prometheus server, a kubelet and a person read them."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest

from tests.conftest import RunManager
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.manager_process import ManagerProcess
from tests.support.memcacheds import assert_converged, memcached, memcached_path
from tests.support.metrics import Samples, documented

# Only what goes wrong, or is not there, has no samples.
NOTHING_OF = {
    *("controller_runtime_webhook_requests_total", "controller_runtime_webhook_latency_seconds"),
    *("controller_runtime_webhook_requests_in_flight", "operator_manager_cache_failures_total"),
    *("operator_manager_watch_restarts_total", "controller_runtime_webhook_panics_total"),
    *("controller_runtime_conversion_webhook_panics_total", "grpc_client_handled_total"),
    "operator_manager_moved_keys_total",
}


class Work:
    """Memcacheds of size 0, which cost the cluster little."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.names: list[str] = []

    def grow_to(self, count: int) -> None:
        """Make more, and wait until all are done."""
        more = [f"object-{number:03d}" for number in range(len(self.names), count)]
        self.names += more
        self.plane.api.create_many(memcached_path(self.namespace), [memcached(name, 0) for name in more])
        eventually(lambda: assert_converged(self.plane, self.namespace, self.names, size=0))


@pytest.fixture
def work(crds: ControlPlane, namespace: str) -> Work:
    return Work(crds, namespace)


@pytest.fixture
def manager(crds: ControlPlane, namespace: str, run_manager: RunManager) -> ManagerProcess:
    return run_manager(
        crds.kubeconfig,
        f"--namespaces={namespace}",
        "--leader-elect",
        f"--leader-election-namespace={namespace}",
    ).wait_ready()


def test_metrics_have_the_documented_names_and_labels(manager: ManagerProcess, work: Work):
    work.grow_to(3)

    def each_has_a_sample() -> None:
        found, silent = manager.metrics(), set()
        for name, (kind, labels) in documented():
            samples = found.select(f"{name}_count" if kind == "histogram" else name)
            assert all(set(each.labels) == set(labels) for each in samples)
            if not samples:
                silent.add(name)
        assert silent <= NOTHING_OF

    eventually(each_has_a_sample)  # Events, for one, are sent after all else
    promtool = shutil.which("promtool")
    if promtool is not None:
        check = [promtool, "check", "metrics"]
        checked = subprocess.run(
            check, input=manager.scrape(), capture_output=True, text=True, timeout=30, check=False
        )
        assert checked.stderr + checked.stdout == ""
        assert checked.returncode == 0


def test_metrics_series_do_not_grow_with_the_number_of_objects(manager: ManagerProcess, work: Work):
    work.grow_to(5)
    before = series(manager.metrics())
    work.grow_to(50)
    after = series(manager.metrics())
    # The number may differ by one: each new status code of the server adds a series.
    assert len(after - before) < 10
    named = [one for one in after if "object-" in str(one) or work.namespace in str(one)]
    assert named == []


def series(found: Samples) -> set[tuple[Any, ...]]:
    """Every series, all that belongs to one histogram counted once: it comes and goes as a whole."""
    return {
        (
            re.sub("_(bucket|sum|count)$", "", sample.name),
            *sorted(label for label in sample.labels.items() if label[0] != "le"),
        )
        for sample in found.all
    }
