"""Leader election between two replicas: only the leader reconciles."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import RunManager
from tests.support.api_objects import new_namespace
from tests.support.control_plane import ControlPlane
from tests.support.crds import install_crds
from tests.support.eventually import consistently, eventually
from tests.support.fault_proxy import Exchange, FaultProxy, Match
from tests.support.load import Load
from tests.support.manager_process import ManagerProcess
from tests.support.memcacheds import assert_converged, memcached, memcached_path

# Long enough for a leader on a busy machine, which may get no response for some seconds.
LEASE, DEADLINE, RETRY = 10.0, 7.5, 0.5
# Extra delay of a process on a busy machine, in seconds.
BUSY = 10.0
LEASE_PATH = "/leases"
# Seconds after its last response in which an idle manager has done its work.
QUIET = 0.05


class Replica:
    """A manager whose requests are recorded by its own fault proxy."""

    def __init__(self, manager: ManagerProcess, proxy: FaultProxy) -> None:
        self.manager = manager
        self.proxy = proxy

    def leads(self) -> bool:
        """Return whether the replica's metrics report leadership."""
        status = self.manager.metrics().select("leader_election_master_status")
        assert len(status) == 1
        return status[0].value == 1

    def object_writes(self) -> list[Exchange]:
        """Return the replica's write requests except those for Leases."""
        return [each for each in self.proxy.exchanges() if each.method != "GET" and not is_lease(each)]

    def works(self) -> bool:
        """Return whether the replica has written any object other than Leases."""
        return bool(self.object_writes())

    def took_over(self) -> float:
        """Return the time of the request that acquired the lease."""
        claims = [
            each
            for each in self.proxy.exchanges()
            if each.method != "GET" and is_lease(each) and each.status in {200, 201}
        ]
        assert claims, "the replica has not acquired the lease"
        return claims[0].at

    def freeze_between_writes(self) -> None:
        """Suspend the replica while it has no write in flight; call this when it has no new work.

        No process can read the clock and make a system call in one step. A replica that is suspended between
        these steps sends one more write when it resumes. `LeaderElector` cannot prevent that.
        """
        eventually(self._is_quiet, every=QUIET / 10)
        self.manager.process.freeze()

    def _is_quiet(self) -> bool:
        """Return whether the replica has no write in flight and sent none recently."""
        ends = [each.over for each in self.proxy.exchanges() if each.method != "GET"]
        return all(over is not None and over < time.monotonic() - QUIET for over in ends)


def started(run_manager: RunManager, proxy: FaultProxy, namespace: str, mode: str) -> Replica:
    """Start a replica that watches the namespace and has its Leases there."""
    manager = run_manager(
        proxy.kubeconfig,
        f"--namespaces={namespace}",
        mode,
        f"--leader-election-namespace={namespace}",
        f"--leader-elect-lease-duration={LEASE:g}s",
        f"--leader-elect-renew-deadline={DEADLINE:g}s",
        f"--leader-elect-retry-period={RETRY * 1000:g}ms",
    )
    return Replica(manager, proxy)


class Memcacheds:
    """The Memcacheds that a test creates in one namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.names: list[str] = []

    def create(self, count: int) -> None:
        """Create `count` more Memcacheds."""
        names = [f"m-{len(self.names) + index:03d}" for index in range(count)]
        self.names += names
        self.plane.api.create_many(memcached_path(self.namespace), [memcached(name) for name in names])

    def converged(self, size: int = 3) -> None:
        """Assert that every object is reconciled with this size."""
        assert_converged(self.plane, self.namespace, self.names, size=size)


class Pair(Memcacheds):
    """A leader and a standby replica for the Memcacheds of a namespace."""

    def __init__(self, plane: ControlPlane, namespace: str, start: Callable[[], Replica]) -> None:
        super().__init__(plane, namespace)
        replicas = [start(), start()]
        eventually(lambda: [replica.leads() for replica in replicas].count(True) == 1)
        self.leader, self.standby = sorted(replicas, key=Replica.leads, reverse=True)
        for replica in replicas:
            replica.manager.wait_ready()
        self.nothing_new = threading.Lock()
        """Lock that makes `create` wait."""

    def create(self, count: int) -> None:
        with self.nothing_new:
            super().create(count)

    def never_both_at_work(self, *, but_for: str = "nothing") -> None:
        """Assert that the old leader wrote nothing after the first write of the new leader.

        Writes whose path contains `but_for` are ignored.
        """
        before = [each for each in self.leader.object_writes() if but_for not in each.path]
        after = self.standby.object_writes()
        assert after, "the other replica has not written anything"
        first = min(each.at for each in after)
        late = [f"{each} {each.at - first:.3f} s after" for each in before if each.at >= first]
        assert not late, f"written by the old leader after the new leader's first write: {late}"


@pytest.fixture(scope="module")
def plane(bare_control_plane: ControlPlane) -> ControlPlane:
    install_crds(bare_control_plane)
    return bare_control_plane


@pytest.fixture
def pair(plane: ControlPlane, run_manager: RunManager, fault_proxy: Callable[[Path], FaultProxy]) -> Pair:
    namespace = new_namespace(plane)

    def start() -> Replica:
        return started(run_manager, fault_proxy(plane.kubeconfig), namespace, "--leader-elect")

    return Pair(plane, namespace, start)


@pytest.mark.parametrize("how", ["killed", pytest.param("stopped", marks=pytest.mark.oldest)])
def test_standby_finishes_the_work_of_a_stopped_leader(pair: Pair, how: str):
    pair.create(5)
    eventually(pair.converged)
    assert pair.standby.object_writes() == []
    reads = pair.standby.proxy.count(Match(method="GET", path="/(memcacheds|deployments|pods)$"))
    creating = threading.Thread(target=pair.create, args=(60,), name="creating")
    creating.start()
    eventually(lambda: len(pair.leader.object_writes()) > 20, every=0.01)
    ended = time.monotonic()
    if how == "killed":
        pair.leader.manager.kill()
    else:
        assert pair.leader.manager.stop() == 0
    creating.join()
    # Some objects are not reconciled yet when the leader stops.
    pair.create(5)
    eventually(pair.converged)
    assert pair.standby.leads()
    # Without a release, the standby would have to wait until the lease expires.
    within = LEASE + RETRY + BUSY if how == "killed" else LEASE - 2 * RETRY
    assert pair.standby.took_over() - ended <= within
    # A replica that stops cleanly sends its last Events after the release of the Lease.
    pair.never_both_at_work(but_for="/events")
    # The standby had a filled cache, so it sent no list and opened no new watch.
    assert pair.standby.proxy.count(Match(method="GET", path="/(memcacheds|deployments|pods)$")) == reads
    conflicts = pair.standby.manager.metrics().value("rest_client_requests_total", code="409", method="PATCH")
    assert conflicts == 0


@pytest.mark.long
def test_suspended_leader_writes_nothing_when_it_resumes_after_lease_expiry(pair: Pair):
    # Create Memcacheds all the time, so that an active replica always has writes.
    with Load(lambda: pair.create(1), callers=1, every=0.05) as load:
        eventually(lambda: len(pair.leader.object_writes()) > 10)
        with pair.nothing_new:
            eventually(pair.converged)
            pair.leader.freeze_between_writes()
        eventually(pair.standby.works)
        pair.leader.manager.process.thaw()
        assert pair.leader.manager.wait() == 1
        pair.never_both_at_work()
        # The lease has expired; the loop, the watchdog's thread or faulthandler reports it first.
        said = pair.leader.manager.process.output()
        assert re.search('no longer the leader: lease |"ended by force: |^Timeout ', said, re.MULTILINE)
        consistently(pair.standby.leads, during=2 * RETRY)
    assert load.failures == {}


def is_lease(exchange: Exchange) -> bool:
    return LEASE_PATH in exchange.path
