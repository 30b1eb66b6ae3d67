"""Removal of the product by `make undeploy` and by the chart: only documented objects remain."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from tests.e2e.cluster import NAMESPACE, SYSTEM, get, kubectl, make, run, say, wait_for
from tests.e2e.conftest import remove
from tests.support.eventually import eventually

pytestmark = pytest.mark.usefixtures("deployed")

RELEASE = ("operator-manager", f"--namespace={SYSTEM}")


def test_undeploy_removes_every_object(leftovers: Callable[[], set[str]]):
    make("undeploy", "OVERLAY=console")
    # A Wordpress with reclaimPolicy Retain keeps volumes and a Secret in its namespace.
    remove()
    _wait_until_nothing_is_left(leftovers)
    say("the cluster has the objects that it had before, and no other")


def _wait_until_nothing_is_left(leftovers: Callable[[], set[str]]) -> None:
    def nothing_is_left() -> None:
        left = leftovers()
        assert not left, f"{len(left)} objects are left: {sorted(left)[:20]}"

    eventually(nothing_is_left, every=1)


def test_chart_can_be_installed_upgraded_and_uninstalled(leftovers: Callable[[], set[str]]):
    if shutil.which("helm") is None:
        pytest.skip("there is no helm on this machine")
    remove()
    make("chart")
    say(f"$ helm install {' '.join(RELEASE)} dist/chart --create-namespace")
    _helm("install", *RELEASE, "dist/chart", "--create-namespace", "--wait", "--timeout=180s")
    kubectl("create", "namespace", NAMESPACE)
    kubectl("apply", "--filename=config/samples/cache_v1_memcached.yaml")
    wait_for("memcached", "memcached-sample")
    before = _deployment()
    _helm(
        "upgrade",
        *RELEASE,
        "dist/chart",
        "--set=manager.shards=4,manager.replicas=2",
        "--wait",
        "--timeout=180s",
    )
    after = _deployment()
    assert (before["spec"]["replicas"], after["spec"]["replicas"]) == (1, 2)
    assert after["status"]["readyReplicas"] == 2
    kubectl("scale", "memcached/memcached-sample", "--replicas=1")
    eventually(lambda: get("memcached", "memcached-sample")["status"]["nodeCount"] == 1, every=0.5)
    say("upgraded to two replicas that share the work; a Memcached follows its size")
    _helm("uninstall", *RELEASE, "--wait", "--timeout=120s")
    assert get("memcached", "memcached-sample")["spec"]["size"] == 1
    say("uninstalled; the Memcached is still there, as the chart keeps definitions")
    make("uninstall")
    kubectl("delete", "namespace", NAMESPACE, SYSTEM, within=180)
    _wait_until_nothing_is_left(leftovers)


def _helm(*arguments: str) -> None:
    run("helm", *arguments, within=240)


def _deployment() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = get(
        "deployment", "operator-manager-controller-manager", namespace=SYSTEM
    )
    return found
