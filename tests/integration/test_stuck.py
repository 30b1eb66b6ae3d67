"""Reconciles that ignore cancellation: the manager still ends in time, and logs their names."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from manager.process.manager import STOP_MARGIN
from tests.integration.stubborn_operator import STUCK
from tests.support.api_objects import new_namespace
from tests.support.control_plane import ControlPlane
from tests.support.crds import install_crds
from tests.support.eventually import eventually
from tests.support.fault_proxy import FaultProxy
from tests.support.foos import foo, foo_path
from tests.support.manager_process import ManagerProcess

Run = Callable[..., ManagerProcess]
PROGRAM = (sys.executable, "-m", "tests.integration.stubborn_operator")
LEASE, DEADLINE = 16.0, 6.0
GRACE = 1.0
# The log shows the stack with the blocked line, and the name of the operator.
WAYS = {
    "swallows-its-cancellation": ("task foo-worker-", "in reconcile", "await asyncio.sleep(_LONG)"),
    "thread": ("thread work_", "in _named", "return work()"),
    "blocks-the-loop": ("task foo-worker-", "in reconcile", "time.sleep(_LONG)"),
}


@pytest.fixture(scope="module")
def plane(bare_control_plane: ControlPlane) -> ControlPlane:
    install_crds(bare_control_plane)
    return bare_control_plane


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Yield a function that starts managers for the tests of this module."""
    with contextlib.ExitStack() as stack:
        yield lambda kubeconfig, *flags: stack.enter_context(
            ManagerProcess(kubeconfig, *flags, folder=tmp_path_factory.mktemp("manager"), program=PROGRAM)
        )


class Stuck:
    """A leading manager with a reconcile that does not end."""

    def __init__(self, plane: ControlPlane, kubeconfig: Path, run: Run, how: str, *flags: str) -> None:
        self.how = how
        self.plane = plane
        self.namespace = new_namespace(plane)
        self.manager: ManagerProcess = run(
            kubeconfig,
            f"--namespaces={self.namespace}",
            f"--graceful-shutdown-timeout={GRACE:g}s",
            "--leader-elect",
            f"--leader-election-namespace={self.namespace}",
            f"--leader-elect-lease-duration={LEASE:g}s",
            f"--leader-elect-renew-deadline={DEADLINE:g}s",
            "--leader-elect-retry-period=500ms",
            *flags,
        )
        plane.api.create(foo_path(self.namespace), foo("sample", how))

    @property
    def lease(self) -> dict[str, Any]:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/operator-manager"
        lease: dict[str, Any] = self.plane.api.get(path)
        return lease

    @property
    def holder(self) -> str:
        """Return the identity of the Lease's holder."""
        return str(self.lease["spec"].get("holderIdentity") or "")

    def ended_by_force(self, reason: str) -> float:
        """Assert that the process was ended by force; return the seconds since `reason` from the log."""
        assert self.manager.wait() == 1
        last = self.manager.logs()[-1]
        assert (last["level"], last["logger"]) == ("error", "watchdog")
        assert last["msg"].startswith("ended by force: ")
        assert last["reason"] == reason
        name, where, line = WAYS[self.how]
        [running] = [each for each in last["still_running"] if each.startswith(name)]
        assert f"{self.namespace}/sample" in running
        assert where in last["stack"]
        assert line in last["stack"]
        # The manager reported no clean stop, and did not release the Lease.
        assert not self.manager.logs(msg="the manager has stopped")
        assert not self.manager.logs(msg="released the lease")
        assert self.holder
        return float(last["seconds"])


def wait_stuck(manager: ManagerProcess) -> None:
    eventually(lambda: manager.logs(msg=STUCK)[0])


class StuckManagers(NamedTuple):
    """Managers with reconciles that ignore cancellation."""

    without_lease: list[Stuck]
    asked_to_stop: list[Stuck]
    blocked: ManagerProcess
    signalled_twice: ManagerProcess
    outlived_it: bool
    """Whether the manager that got one signal still ran when the other manager had ended."""


@pytest.fixture(scope="module")
def stuck_managers(
    plane: ControlPlane, run: Run, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StuckManagers]:
    """Run all managers at the same time, because each needs some seconds to end."""
    with FaultProxy(plane.credentials, folder=tmp_path_factory.mktemp("proxy")) as proxy:
        without_lease = [Stuck(plane, proxy.kubeconfig, run, how) for how in WAYS]
        # A manager with a blocked event loop loses its lease first.
        asked = [Stuck(plane, plane.kubeconfig, run, how) for how in WAYS if how != "blocks-the-loop"]
        namespace = new_namespace(plane)
        flags = f"--namespaces={namespace}", "--graceful-shutdown-timeout=1s"
        blocked, twice = [run(plane.kubeconfig, *flags) for _ in range(2)]
        plane.api.create(foo_path(namespace), foo("sample", "blocks-the-loop"))
        for manager in (*(each.manager for each in (*without_lease, *asked)), blocked, twice):
            wait_stuck(manager)
        proxy.refuse()
        for manager in (*(each.manager for each in asked), blocked, twice):
            manager.terminate()
        twice.interrupt()
        twice.wait()
        yield StuckManagers(without_lease, asked, blocked, twice, blocked.process.running)


def test_watchdog_ends_a_stuck_process_before_another_replica_can_acquire_the_lease(
    stuck_managers: StuckManagers,
):
    for each in stuck_managers.without_lease:
        assert each.ended_by_force("the lease was lost") < LEASE - DEADLINE


def test_watchdog_ends_a_process_that_does_not_stop_after_grace_period_and_margin(
    stuck_managers: StuckManagers,
):
    for each in stuck_managers.asked_to_stop:
        assert each.ended_by_force("asked to stop") >= GRACE + STOP_MARGIN


def test_manager_with_a_blocked_event_loop_ends_by_watchdog_after_one_signal_and_at_once_after_two(
    stuck_managers: StuckManagers,
):
    assert stuck_managers.signalled_twice.wait() == 1
    assert stuck_managers.signalled_twice.logs()[-1]["msg"] == "a second signal ends the process"
    assert stuck_managers.outlived_it
    assert stuck_managers.blocked.wait() == 1
    assert stuck_managers.blocked.logs()[-1]["reason"] == "asked to stop"
    assert "time.sleep(_LONG)" in stuck_managers.blocked.logs()[-1]["stack"]


def test_released_lease_forbids_the_writes_of_an_unawaited_task(plane: ControlPlane, run: Run):
    # All writes of the API server have one sequence of versions.
    stuck = Stuck(plane, plane.kubeconfig, run, "leaves-a-task-that-writes", "--shutdown-delay=2s")
    path = f"/api/v1/namespaces/{stuck.namespace}/configmaps"

    def writes() -> list[int]:
        written = [each["metadata"] for each in plane.api.get(path)["items"]]
        return [int(each["resourceVersion"]) for each in written if each["name"].startswith("written-")]

    eventually(lambda: writes()[0])
    stuck.manager.terminate()
    assert stuck.manager.wait() == 0
    assert stuck.manager.logs(msg="released the lease")
    assert not stuck.holder
    assert max(writes()) < int(stuck.lease["metadata"]["resourceVersion"])


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("exits-in-a-task", "SystemExit: 0"),
        ("cancels-all", "CancelledError"),
        ("stops-the-loop", "RuntimeError: "),
    ],
)
def test_manager_exits_with_1_without_releasing_its_lease_when_a_reconcile_stops_the_event_loop(
    plane: ControlPlane, run: Run, how: str, error: str
):
    stuck = Stuck(plane, plane.kubeconfig, run, how)
    assert stuck.manager.wait() == 1
    last = stuck.manager.logs()[-1]
    assert (last["level"], last["msg"]) == ("error", "the manager stopped because of an unexpected error")
    assert error in last["stacktrace"]
    assert not stuck.manager.logs(msg="released the lease")
    assert stuck.holder
