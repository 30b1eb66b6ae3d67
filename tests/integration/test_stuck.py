"""Work that does not end when it is told to: the process ends all the same, in time, and says what it was."""

from __future__ import annotations

import secrets
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from manager.manager import STOP_MARGIN
from tests.support.crds import install_crds
from tests.support.eventually import eventually
from tests.support.foos import foo, foo_path
from tests.support.stubborn_operator import STUCK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RunManager
    from tests.support.control_plane import ControlPlane
    from tests.support.fault_proxy import FaultProxy
    from tests.support.manager_process import ManagerProcess

PROGRAM = (sys.executable, "-m", "tests.support.stubborn_operator")
LEASE, DEADLINE = 16.0, 6.0
GRACE = 1.0
# The stack of each kind of stubbornness shows where it is, and the name who it is.
WAYS = {
    "swallows-its-cancellation": ("task foo-worker-", "in reconcile", "await asyncio.sleep(_LONG)"),
    "thread": ("thread work_", "in _named", "return work()"),
    "blocks-the-loop": ("task foo-worker-", "in reconcile", "time.sleep(_LONG)"),
}


@pytest.fixture(scope="module")
def plane(bare_control_plane: ControlPlane) -> ControlPlane:
    install_crds(bare_control_plane)
    return bare_control_plane


class Stuck:
    """A manager that leads, in a reconcile that does not end."""

    def __init__(self, plane: ControlPlane, kubeconfig: Path, run: RunManager, how: str) -> None:
        self.how = how
        self.plane = plane
        self.namespace = f"test-{secrets.token_hex(4)}"
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self.manager: ManagerProcess = run(
            kubeconfig,
            f"--namespaces={self.namespace}",
            f"--graceful-shutdown-timeout={GRACE:g}s",
            "--leader-elect",
            f"--leader-election-namespace={self.namespace}",
            f"--leader-elect-lease-duration={LEASE:g}s",
            f"--leader-elect-renew-deadline={DEADLINE:g}s",
            "--leader-elect-retry-period=500ms",
            program=PROGRAM,
        )
        plane.api.create(foo_path(self.namespace), foo("sample", how))

    def wait_stuck(self) -> None:
        wait_stuck(self.manager)

    @property
    def holder(self) -> str:
        """Who holds the lease."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/operator-manager"
        spec: dict[str, Any] = self.plane.api.get(path)["spec"]
        return str(spec.get("holderIdentity") or "")

    def ended_by_force(self, reason: str) -> float:
        """Look at the line that it ended with; how many seconds after the reason that was, it says itself."""
        assert self.manager.wait() == 1
        last = self.manager.logs()[-1]
        assert (last["level"], last["logger"]) == ("error", "watchdog")
        begin, after, _ = last["msg"].partition(f": {reason} ")
        assert after, last["msg"]
        assert begin == "ended by force"
        name, where, line = WAYS[self.how]
        [running] = [each for each in last["still_running"] if each.startswith(name)]
        assert f"{self.namespace}/sample" in running
        assert where in last["stack"]
        assert line in last["stack"]
        # Nothing said that all was well, and nobody was let in while it was not.
        assert not self.manager.logs(msg="stopped")
        assert not self.manager.logs(msg="released the lease")
        assert self.holder
        return float(last["msg"].partition(f"{reason} ")[2].partition(" s ago")[0])


def wait_stuck(manager: ManagerProcess) -> None:
    eventually(lambda: manager.logs(msg=STUCK)[0])


@pytest.mark.timeout(300)
def test_a_process_that_lost_its_lease_is_gone_before_another_may_lead(
    plane: ControlPlane, run_manager: RunManager, fault_proxy: Callable[[Path], FaultProxy]
) -> None:
    proxy = fault_proxy(plane.kubeconfig)
    all_ways = [Stuck(plane, proxy.kubeconfig, run_manager, how) for how in WAYS]
    for each in all_ways:
        each.wait_stuck()
    proxy.refuse()
    for each in all_ways:
        assert each.ended_by_force("the lease was lost") < LEASE - DEADLINE


@pytest.mark.timeout(300)
def test_a_process_that_was_asked_to_stop_is_gone_soon_after_the_grace(
    plane: ControlPlane, run_manager: RunManager
) -> None:
    # Whose loop is blocked loses its lease first.
    all_ways = [Stuck(plane, plane.kubeconfig, run_manager, how) for how in WAYS if how != "blocks-the-loop"]
    for each in all_ways:
        each.wait_stuck()
        each.manager.terminate()
    for each in all_ways:
        assert each.ended_by_force("asked to stop") >= GRACE + STOP_MARGIN


def test_a_process_whose_loop_is_blocked_ends_when_it_is_asked_to(
    plane: ControlPlane, run_manager: RunManager
) -> None:
    namespace = f"test-{secrets.token_hex(4)}"
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    flags = f"--namespaces={namespace}", "--graceful-shutdown-timeout=1s"
    managers = [run_manager(plane.kubeconfig, *flags, program=PROGRAM) for _ in range(2)]
    plane.api.create(foo_path(namespace), foo("sample", "blocks-the-loop"))
    for manager in managers:
        wait_stuck(manager)
    time.sleep(1)  # until it is not only said, but so
    first, second = managers
    first.terminate()
    second.terminate()
    second.interrupt()
    assert second.wait() == 1
    assert second.logs()[-1]["msg"] == "exiting at once on a second signal"
    assert first.process.running
    assert first.wait() == 1
    assert first.logs()[-1]["msg"].startswith("ended by force: asked to stop ")
    assert "time.sleep(_LONG)" in first.logs()[-1]["stack"]


@pytest.mark.parametrize(
    ("how", "error"),
    [("exits", "SystemExit: 0"), ("cancels-all", "CancelledError"), ("stops-the-loop", "RuntimeError: ")],
)
def test_a_reconcile_that_ends_the_process_is_no_clean_stop(
    plane: ControlPlane, run_manager: RunManager, how: str, error: str
) -> None:
    stuck = Stuck(plane, plane.kubeconfig, run_manager, how)
    assert stuck.manager.wait() == 1
    last = stuck.manager.logs()[-1]
    assert (last["level"], last["msg"]) == ("error", "stopped by an unexpected error")
    assert error in last["stacktrace"]
    assert not stuck.manager.logs(msg="released the lease")
    assert stuck.holder


def test_a_thread_that_ends_in_time_is_waited_for_before_the_lease_is_released(
    plane: ControlPlane, run_manager: RunManager
) -> None:
    stuck = Stuck(plane, plane.kubeconfig, run_manager, "short-thread")
    stuck.wait_stuck()
    stuck.manager.process.signal(signal.SIGTERM)
    assert stuck.manager.wait() == 0
    said = [line["msg"] for line in stuck.manager.logs()]
    waiting = said.index("waiting for threads, which cannot be cancelled")
    assert (
        said.index("reconciles cancelled")
        < waiting
        < said.index("released the lease")
        < said.index("stopped")
    )
    assert stuck.holder == ""
