"""Three replicas that share the objects: each object is one's at a time, whoever comes and goes."""

from __future__ import annotations

import secrets
from itertools import groupby
from typing import TYPE_CHECKING

import pytest

from tests.integration.test_replicas import DEADLINE, LEASE, RETRY, Replica
from tests.support.crds import install_crds
from tests.support.eventually import eventually
from tests.support.memcacheds import assert_converged, memcached, memcached_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RunManager
    from tests.support.control_plane import ControlPlane
    from tests.support.fault_proxy import FaultProxy

RANGES = 8


class Replicas:
    """Of one manager, over the Memcacheds of one namespace."""

    def __init__(self, plane: ControlPlane, namespace: str, begin: Callable[[], Replica]) -> None:
        self.plane = plane
        self.namespace = namespace
        self.names: list[str] = []
        self._begin = begin
        self.all: list[Replica] = []
        self.here: list[Replica] = []

    def start(self, count: int) -> list[Replica]:
        """That many more."""
        started = [self._begin() for _ in range(count)]
        self.all += started
        self.here += started
        return started

    def ranges(self, replica: Replica) -> int:
        """How many it says that it has."""
        status = replica.manager.metrics().select("leader_election_master_status")
        return int(sum(each.value for each in status))

    def are_shared_out(self) -> None:
        """All ranges are somebody's, and each has as many."""
        shares = [self.ranges(each) for each in self.here]
        assert sum(shares) == RANGES, shares
        assert max(shares) - min(shares) <= 1, shares

    def create(self, count: int) -> None:
        """Make that many more Memcacheds."""
        names = [f"m-{len(self.names) + index:03d}" for index in range(count)]
        self.names += names
        self.plane.api.create_many(memcached_path(self.namespace), [memcached(name) for name in names])

    def converged(self) -> None:
        """All that was made is as it should be."""
        assert_converged(self.plane, self.namespace, self.names, size=3)

    def writers(self, name: str) -> list[int]:
        """Who has written for an object, one after the other."""
        writes = [
            (each.at, number)
            for number, replica in enumerate(self.all)
            for each in replica.object_writes()
            if f"/{name}" in each.path
        ]
        return [number for number, _ in groupby(number for _, number in sorted(writes))]


@pytest.fixture
def replicas(
    bare_control_plane: ControlPlane, run_manager: RunManager, fault_proxy: Callable[[Path], FaultProxy]
) -> Replicas:
    plane = bare_control_plane
    install_crds(plane)
    namespace = f"test-{secrets.token_hex(4)}"
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})

    def begin() -> Replica:
        proxy = fault_proxy(plane.kubeconfig)
        manager = run_manager(
            proxy.kubeconfig,
            f"--namespaces={namespace}",
            f"--shards={RANGES}",
            f"--leader-election-namespace={namespace}",
            f"--leader-elect-lease-duration={LEASE:g}s",
            f"--leader-elect-renew-deadline={DEADLINE:g}s",
            f"--leader-elect-retry-period={RETRY * 1000:g}ms",
        )
        return Replica(manager, proxy)

    return Replicas(plane, namespace, begin)


@pytest.mark.oldest
def test_each_object_is_worked_on_by_one_at_a_time_whoever_comes_and_goes(replicas: Replicas) -> None:
    killed, stopped, _ = replicas.start(3)
    eventually(replicas.are_shared_out)
    replicas.create(30)
    eventually(replicas.converged)
    assert all(each.works() for each in replicas.here), "each has its share of them"
    killed.manager.kill()
    replicas.here.remove(killed)
    replicas.create(20)
    eventually(replicas.converged)
    eventually(replicas.are_shared_out)
    assert stopped.manager.stop() == 0
    replicas.here.remove(stopped)
    replicas.create(20)
    eventually(replicas.converged)
    (late,) = replicas.start(1)
    eventually(replicas.are_shared_out)
    replicas.create(30)
    eventually(replicas.converged)
    assert late.works()
    again = {name: wrote for name in replicas.names if len(wrote := replicas.writers(name)) > len(set(wrote))}
    assert not again, f"written by two in turns: {again}"
