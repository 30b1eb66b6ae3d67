"""Ending in the middle of work: nothing half done, and whoever comes next finishes it."""

from __future__ import annotations

import secrets
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api_objects import deployment_path
from tests.support.crds import install_crds
from tests.support.eventually import eventually
from tests.support.fault_proxy import Match
from tests.support.memcacheds import assert_converged, memcached, memcached_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import RunManager
    from tests.support.control_plane import ControlPlane
    from tests.support.fault_proxy import FaultProxy
    from tests.support.manager_process import ManagerProcess

OBJECTS = 150
GRACE = 15.0
CONVERGED_WITHIN = 240.0
CREATION = Match(method="POST", path="/deployments$")


class Work:
    """Many Memcacheds in a namespace of their own, all of them still to be done."""

    def __init__(self, plane: ControlPlane, count: int) -> None:
        self.plane = plane
        self.namespace = f"test-{secrets.token_hex(4)}"
        self.names = [f"m-{number:03d}" for number in range(count)]
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        plane.api.create_many(memcached_path(self.namespace), [memcached(name) for name in self.names])

    @property
    def flags(self) -> tuple[str, ...]:
        """For a manager that does this work and no other."""
        return f"--namespaces={self.namespace}", f"--graceful-shutdown-timeout={GRACE:g}s"

    def deployments(self) -> list[dict[str, Any]]:
        """As the server has them."""
        found: list[dict[str, Any]] = self.plane.api.get(deployment_path(self.namespace))["items"]
        return found

    def nothing_half_done(self) -> None:
        """Every Deployment has all that it is born with; a status is there only with its Deployment."""
        owners = {each["metadata"]["name"]: each for each in self.memcacheds()}
        deployments = self.deployments()
        for each in deployments:
            name = each["metadata"]["name"]
            [reference] = each["metadata"]["ownerReferences"]
            assert reference["uid"] == owners[name]["metadata"]["uid"]
            assert reference["controller"]
            assert reference["blockOwnerDeletion"]
            labels = each["metadata"]["labels"]
            assert (labels["app"], labels["memcached_cr"]) == ("memcached", name)
            assert each["spec"]["replicas"] == owners[name]["spec"]["size"]
            assert each["metadata"]["generation"] == 1, f"{name} was changed after it was made"
        done = {each["metadata"]["name"] for each in deployments}
        for name, owner in owners.items():
            status = owner.get("status")
            assert status is None or name in done, f"{name} has a status and no Deployment"
            if status is not None:
                assert status["observedGeneration"] == 1
                assert {each["type"] for each in status["conditions"]} == {
                    "Available",
                    "Progressing",
                    "Degraded",
                }

    def memcacheds(self) -> list[dict[str, Any]]:
        """As the server has them."""
        found: list[dict[str, Any]] = self.plane.api.get(memcached_path(self.namespace))["items"]
        return found

    def finished(self) -> None:
        """All is done, once each."""
        assert_converged(self.plane, self.namespace, self.names, size=3)

    def has_deployments(self, count: int) -> bool:
        """Whether at least that many are made."""
        return len(self.deployments()) >= count

    def complete(self) -> dict[str, str]:
        """The versions of all Memcacheds that have a status, and of the Deployments of these."""
        reported = {
            each["metadata"]["name"]: each["metadata"] for each in self.memcacheds() if "status" in each
        }
        made = {each["metadata"]["name"]: each["metadata"] for each in self.deployments()}
        return {
            name: f"{reported[name]['resourceVersion']} {made[name]['resourceVersion']}" for name in reported
        }


@pytest.fixture(scope="module")
def plane(bare_control_plane: ControlPlane) -> ControlPlane:
    install_crds(bare_control_plane)
    return bare_control_plane


@pytest.mark.timeout(600)
def test_a_stop_in_the_middle_of_much_work_leaves_nothing_half_done(
    plane: ControlPlane, run_manager: RunManager, fault_proxy: Callable[[Path], FaultProxy]
) -> None:
    work, proxy = Work(plane, OBJECTS), fault_proxy(plane.kubeconfig)
    # So that there is a middle.
    proxy.delay(0.2, match=CREATION, times=None)
    manager = run_manager(proxy.kubeconfig, *work.flags)
    eventually(lambda: work.has_deployments(OBJECTS // 10), every=0.02)
    began = time.monotonic()
    assert manager.stop() == 0
    assert time.monotonic() - began <= GRACE
    complete = work.complete()
    assert len(complete) < OBJECTS, "it was done before it could be stopped"
    work.nothing_half_done()
    no_faults(manager)
    assert not manager.logs(msg="reconciles cancelled")

    proxy.heal()
    manager.start_again()
    manager.wait_ready()
    eventually(work.finished, within=CONVERGED_WITHIN, every=0.5)
    work.nothing_half_done()
    assert manager.metrics().value("rest_client_requests_total", code="409") == 0
    # What the first one had done was not written again.
    assert work.complete().items() >= complete.items()
    assert manager.stop() == 0
    no_faults(manager)


@pytest.fixture
def stuck(
    plane: ControlPlane, run_manager: RunManager, fault_proxy: Callable[[Path], FaultProxy]
) -> Iterator[ManagerProcess]:
    """A manager in the middle of a reconcile that does not come to an end for a long time."""
    proxy = fault_proxy(plane.kubeconfig)
    proxy.delay(60, match=CREATION, times=None)
    work = Work(plane, 1)
    manager = run_manager(proxy.kubeconfig, f"--namespaces={work.namespace}")
    eventually(lambda: proxy.count(CREATION) == 1)
    yield manager
    manager.kill()
    assert work.deployments() == []


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_during_the_grace_ends_it_at_once(
    stuck: ManagerProcess, second: signal.Signals
) -> None:
    stuck.terminate()
    eventually(lambda: stuck.logs(msg="stopping")[0])
    time.sleep(0.5)
    assert stuck.process.running
    began = time.monotonic()
    stuck.process.signal(second)
    assert stuck.wait() == 1
    assert time.monotonic() - began < 20  # and the grace would be 30
    [line] = stuck.logs(level="error", logger="signals")
    assert line["signal"] == second.name
    no_faults(stuck)


def test_what_takes_longer_than_the_grace_is_cancelled_and_said(
    plane: ControlPlane, run_manager: RunManager, fault_proxy: Callable[[Path], FaultProxy]
) -> None:
    proxy = fault_proxy(plane.kubeconfig)
    proxy.delay(60, match=CREATION, times=None)
    work = Work(plane, 1)
    manager = run_manager(
        proxy.kubeconfig, f"--namespaces={work.namespace}", "--graceful-shutdown-timeout=1s"
    )
    eventually(lambda: proxy.count(CREATION) == 1)
    began = time.monotonic()
    assert manager.stop() == 0
    assert 1 <= time.monotonic() - began < 20
    [line] = manager.logs(msg="reconciles cancelled")
    assert line["count"] == 1
    assert not manager.is_ready()
    no_faults(manager)


def test_it_says_that_it_is_not_ready_while_it_stops(stuck: ManagerProcess) -> None:
    stuck.wait_ready()
    stuck.terminate()

    def says_so() -> None:
        status, text = stuck.probe("/readyz")
        assert status == 500
        assert "[-]shutdown failed: the manager is stopping" in text

    eventually(says_so)
    assert stuck.probe("/healthz") == (200, "ok")


def no_faults(manager: ManagerProcess) -> None:
    """Nothing in the log looks like a fault in the program."""
    assert not [line for line in manager.logs() if "stacktrace" in line or "text" in line]
