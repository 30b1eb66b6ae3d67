"""The API server's audit log of replicas that share the objects while replicas start and stop."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunManager, StartControlPlane
from tests.support.api_objects import deployment_path
from tests.support.control_plane import ControlPlane, Feature
from tests.support.control_plane_kinds import ControlPlaneKind
from tests.support.crds import install_crds
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.manager_process import ManagerProcess
from tests.support.memcacheds import memcached, memcached_path
from tests.support.ownership import GROUP, Ownership, audited, events_of

SHARDS = 16
NAMESPACES = [f"team-{number}" for number in range(5)]
GATE = "--feature-gates=ShardedListAndWatch=true"
MANY = 3_000
# A busy machine may not answer for longer than a usual Lease lasts; a replica without its Lease exits.
LEASE, DEADLINE, RETRY = 60.0, 45.0, 0.5
# Seconds between two changes: while shards move, and while all wait for the shards of a killed replica.
QUICKLY, SLOWLY = 0.02, 0.5
# For what MANY of them take on a busy machine; nothing is asserted of how long it is.
WITHIN = 600.0


class Crowd:
    """Memcacheds in several namespaces, which are made and changed all the time while `churn` runs."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.pause = QUICKLY
        self._rng = random.Random(7)
        self._names: list[tuple[str, str]] = []
        self._enough = threading.Event()
        self._churning = threading.Thread(target=self._churn, name="churn")
        for namespace in NAMESPACES:
            plane.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})

    def create(self, count: int) -> None:
        """Make that many more, in all namespaces alike."""
        for namespace in NAMESPACES:
            names = [f"m-{len(self._names) + index:04d}" for index in range(count // len(NAMESPACES))]
            self.plane.api.create_many(memcached_path(namespace), map(memcached, names))
            self._names += [(namespace, name) for name in names]

    def __enter__(self) -> None:
        self._churning.start()

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._churning.join()

    def converged(self) -> None:
        """Assert that every object matches its latest spec."""
        for namespace in NAMESPACES:
            found, deployments = (
                {each["metadata"]["name"]: each for each in self.plane.api.get(path(namespace))["items"]}
                for path in (memcached_path, deployment_path)
            )
            wrong = [name for name, each in found.items() if not is_done(each, deployments.get(name))]
            assert not wrong, f"{len(wrong)} in {namespace}: {wrong[:10]}"

    def __len__(self) -> int:
        return len(self._names)

    def _churn(self) -> None:
        while not self._enough.wait(self.pause):
            namespace, name = self._rng.choice(self._names)
            size = self._rng.randint(1, 9)
            self.plane.api.patch(memcached_path(namespace, name), {"spec": {"size": size}})


def is_done(obj: dict[str, Any], deployment: dict[str, Any] | None) -> bool:
    """Return whether its status is of its latest spec, and its Deployment as that has it."""
    observed = obj.get("status", {}).get("observedGeneration")
    return (
        observed == obj["metadata"]["generation"]
        and deployment is not None
        and deployment["spec"]["replicas"] == obj["spec"]["size"]
    )


class Audited:
    """A control plane with an audit log, and managers that are users of their own there: `here` run now."""

    def __init__(self, plane: ControlPlane, log: Path, run_manager: RunManager) -> None:
        self.plane = plane
        self._log = log
        self._run_manager = run_manager
        self._count = 0
        self.here: list[ManagerProcess] = []

    def start(self) -> ManagerProcess:
        """Start another replica."""
        self._count += 1
        manager = self._run_manager(
            self.plane.user_kubeconfig(f"replica-{self._count}", "system:masters", GROUP),
            "--controllers=memcached",
            f"--shards={SHARDS}",
            "--leader-election-namespace=default",
            f"--leader-elect-lease-duration={LEASE:g}s",
            f"--leader-elect-renew-deadline={DEADLINE:g}s",
            f"--leader-elect-retry-period={RETRY * 1000:g}ms",
            "--console-bind-address=0",
        )
        self.here.append(manager)
        return manager

    def are_shared_out(self) -> None:
        """Assert that replicas hold all shards, in equal numbers."""
        status = [each.metrics().select("leader_election_master_status") for each in self.here]
        shares = [sum(each.value for each in of_one) for of_one in status]
        assert sum(shares) == SHARDS, shares
        assert max(shares) - min(shares) <= 1, shares

    def ownership(self) -> Ownership:
        """Return the ownership that the log shows so far."""
        return Ownership.of(events_of(self._log), lease="operator-manager", count=SHARDS)


@pytest.fixture
def audited_plane(
    request: pytest.FixtureRequest,
    control_plane_kind: ControlPlaneKind,
    own_control_plane: StartControlPlane,
    run_manager: RunManager,
    tmp_path: Path,
) -> Audited:
    """On a server with the flags that the test says besides."""
    # A server without audit logs does not start with these flags.
    control_plane_kind.create(tmp_path / "not-started").require(Feature.AUDIT_LOG)
    log, flags = audited(tmp_path)
    plane = own_control_plane(parts=BARE, apiserver_flags=[*flags, *request.param])
    install_crds(plane)
    return Audited(plane, log, run_manager)


@pytest.mark.whole
@pytest.mark.timeout(3 * WITHIN)
@pytest.mark.parametrize(
    "audited_plane",
    [
        pytest.param([GATE], id="sharded watch", marks=pytest.mark.contract),
        pytest.param([], id="whole watch", marks=pytest.mark.oldest),
    ],
    indirect=True,
)
def test_shard_owners_write_no_object_in_overlapping_terms(audited_plane: Audited):
    replicas, crowd = audited_plane, Crowd(audited_plane.plane)
    killed, stopped, _ = [replicas.start() for _ in range(3)]
    crowd.create(MANY)
    eventually(replicas.are_shared_out, within=WITHIN)
    with crowd:
        killed.kill()
        replicas.here.remove(killed)
        crowd.pause = SLOWLY
        eventually(replicas.are_shared_out, within=WITHIN, every=0.5)
        crowd.pause = QUICKLY
        assert stopped.stop() == 0
        replicas.here.remove(stopped)
        eventually(replicas.are_shared_out, within=WITHIN)
        replicas.start()
        eventually(replicas.are_shared_out, within=WITHIN, every=0.5)
    eventually(crowd.converged, within=WITHIN, every=1.0)
    found = replicas.ownership()
    assert found.faults() == []
    writers = found.writers()
    assert len(writers) == len(crowd), "the log has them all"
    assert any(len(wrote) > 1 for wrote in writers.values()), "some have moved"
    assert all(len(terms) > 1 for terms in found.terms.values() if terms[0].who != "replica-3")
