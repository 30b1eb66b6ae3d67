"""/metrics of a manager, whose size does not depend on the objects."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conftest import RunManager
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.manager_process import ManagerProcess
from tests.support.memcacheds import assert_converged, memcached, memcached_path
from tests.support.metrics import Samples


def grow(plane: ControlPlane, namespace: str, *numbers: int) -> None:
    """Create Memcacheds of size 0, which need few resources, and wait until all are reconciled."""
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
    """Return the metric series; the series of one histogram count as one."""
    return {
        (
            re.sub("_(bucket|sum|count)$", "", sample.name),
            *sorted(label for label in sample.labels.items() if label[0] != "le"),
        )
        for sample in found.all
    }
