"""Number of the manager's requests: two writes per object, and none when nothing changes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunManager, StartControlPlane
from tests.support.api_objects import deployment_path
from tests.support.control_plane import ControlPlane
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.fault_proxy import Exchange, FaultProxy, Match
from tests.support.memcacheds import assert_converged, memcached, memcached_path

OBJECTS = 80
FINISHED = 50
QUIET = 3.0


@pytest.fixture
def bare(own_control_plane: StartControlPlane) -> ControlPlane:
    """Start an API server without controllers, so that every write is a write of the manager."""
    return own_control_plane(parts=BARE, crds=True)


@pytest.mark.timeout(600)
def test_manager_writes_exactly_twice_for_each_memcached_object(
    bare: ControlPlane, run_manager: RunManager, fault_proxy: Callable[[Path], FaultProxy]
):
    names = [f"m-{number:03d}" for number in range(OBJECTS)]
    bare.api.create_many(memcached_path("default"), [memcached(name) for name in names])
    proxy = fault_proxy(bare.kubeconfig)
    manager = run_manager(proxy.kubeconfig, "--leader-elect", "--leader-election-namespace=default")
    eventually(lambda: assert_converged(bare, "default", names, size=3), within=240, every=1)

    objects = proxy.exchanges(Match(path="/(deployments|memcacheds)"))
    writes = [each for each in objects if each.method != "GET"]
    assert len(writes) == 2 * OBJECTS
    assert {each.status for each in writes} == {200, 201}
    counted = manager.metrics()
    assert counted.value("rest_client_requests_total", code="409") == 0
    assert counted.value("controller_runtime_reconcile_errors_total") == 0

    # Events are written after the objects.
    eventually(lambda: manager.metrics().value("operator_manager_events_total") >= OBJECTS, within=240)
    eventually(lambda: no_more(proxy), within=240)
    before = len(proxy.exchanges())
    time.sleep(QUIET)
    later = proxy.exchanges()[before:]
    assert [each for each in later if not (is_lease(each) or each.watch)] == []
    # The answer to a write and its watch event cause no second reconcile, in whichever order they arrive.
    reconciled = manager.metrics().value("controller_runtime_reconcile_total", controller="memcached")
    assert reconciled == OBJECTS
    # No label names an object, so the number of series does not depend on the number of objects.
    uids = {each["metadata"]["uid"] for each in bare.api.get(memcached_path("default"))["items"]}
    page = manager.scrape()
    assert [each for each in uids.union(names) if each in page] == []


@pytest.mark.timeout(600)
def test_restarted_manager_writes_nothing_when_all_objects_are_reconciled(
    bare: ControlPlane, run_manager: RunManager, fault_proxy: Callable[[Path], FaultProxy]
):
    names = [f"m-{number:03d}" for number in range(FINISHED)]
    bare.api.create_many(memcached_path("default"), [memcached(name) for name in names])
    first = run_manager(bare.kubeconfig, "--controllers=memcached")
    eventually(lambda: assert_converged(bare, "default", names, size=3), within=240, every=1)
    assert first.stop() == 0
    ours = sum(len(json.dumps(each)) for each in bare.api.get(deployment_path("default"))["items"])
    bare.api.create_many(deployment_path("default"), [padded(f"others-{number}") for number in range(50)])

    proxy = fault_proxy(bare.kubeconfig)
    manager = run_manager(proxy.kubeconfig, "--controllers=memcached")
    reconciled = "controller_runtime_reconcile_total"
    eventually(lambda: manager.metrics().value(reconciled, controller="memcached") == FINISHED, within=240)
    eventually(lambda: no_more(proxy), within=240)
    asked = [each for each in proxy.exchanges() if re.search("/(deployments|memcacheds|pods)", each.path)]
    assert all(each.watch for each in asked), "no single object is read"
    paths = ("/apis/cache.example.com/v1/memcacheds", "/apis/apps/v1/deployments", "/api/v1/pods")
    assert sorted(each.path for each in asked) == sorted(paths)
    # The manager sends access reviews, which write nothing.
    others = [each for each in proxy.exchanges() if each.method != "GET"]
    assert {each.path for each in others} <= {"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"}

    labels = {"kind": "deployments.apps", "projection": "full"}
    counted = manager.metrics()
    assert counted.value("operator_manager_cache_objects", **labels) == FINISHED + 50
    assert counted.value("operator_manager_cache_bytes", **labels) < ours + 50 * 1000


def padded(name: str) -> dict[str, Any]:
    """Return a very large Deployment that no operator owns."""
    labels = {"app": name}
    container = {"name": "a", "image": "a", "env": [{"name": "A", "value": "x" * 50_000}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": name, "annotations": {"padding": "x" * 50_000}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def test_resync_writes_nothing_when_nothing_changed(
    crds: ControlPlane, storage: None, namespace: str, run_manager: RunManager
):
    controllers = ["memcached", "foo", "mysrv", "wordpress"]
    for each in controllers:
        [sample] = Path("config/samples").glob(f"*_{each}.yaml")
        crds.kubectl("apply", f"--namespace={namespace}", "-f", sample)
    flags = (f"--namespaces={namespace}", f"--controllers={','.join(controllers)}", "--resync-period=500ms")
    manager = run_manager(crds.kubeconfig, *flags).wait_ready()

    def reconciles() -> dict[str, float]:
        counted = manager.metrics()
        name = "controller_runtime_reconcile_total"
        return {each: counted.value(name, controller=each) for each in controllers}

    def writes() -> float:
        counted = manager.metrics()
        methods = ("POST", "PUT", "PATCH", "DELETE")
        return sum(counted.value("rest_client_requests_total", method=method) for method in methods)

    def five_in_a_row() -> None:
        reconciled, before = reconciles(), writes()
        assert all(reconciled.values())
        eventually(lambda: all(reconciles()[each] >= reconciled[each] + 5 for each in controllers))
        assert writes() == before

    eventually(five_in_a_row)


def is_lease(exchange: Exchange) -> bool:
    return re.search("/leases", exchange.path) is not None


def no_more(proxy: FaultProxy) -> bool:
    """Return whether the manager has sent only Lease requests during the last second."""
    since = time.monotonic() - 1
    return not [each for each in proxy.exchanges() if each.at > since and not is_lease(each)]
