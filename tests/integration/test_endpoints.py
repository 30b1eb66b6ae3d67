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


def grow(plane: ControlPlane, namespace: str, *numbers: int) -> None:
    """Make Memcacheds of size 0, which cost the cluster little, and wait until all are done."""
    names = [f"object-{number:03d}" for number in range(*numbers)]
    plane.api.create_many(memcached_path(namespace), [memcached(name, 0) for name in names])
    eventually(lambda: assert_converged(plane, namespace, names, size=0))


@pytest.fixture
def manager(crds: ControlPlane, namespace: str, run_manager: RunManager) -> ManagerProcess:
    return run_manager(
        crds.kubeconfig,
        f"--namespaces={namespace}",
        "--leader-elect",
        f"--leader-election-namespace={namespace}",
    ).wait_ready()


def test_metrics_have_the_documented_names_and_labels(
    manager: ManagerProcess, crds: ControlPlane, namespace: str
):
    grow(crds, namespace, 3)

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


def test_metrics_series_do_not_grow_with_the_number_of_objects(
    manager: ManagerProcess, crds: ControlPlane, namespace: str
):
    grow(crds, namespace, 5)
    before = series(manager.metrics())
    grow(crds, namespace, 5, 50)
    after = series(manager.metrics())
    # The number may differ by one: each new status code of the server adds a series.
    assert len(after - before) < 10
    named = [one for one in after if "object-" in str(one) or namespace in str(one)]
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
