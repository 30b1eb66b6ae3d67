"""Three replicas with shards: each object has one owner while replicas start and stop."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, groupby
from pathlib import Path
from urllib.parse import urlencode

import pytest

from manager_shards.coordinator import lease_of_shard
from manager_shards.shard_set import ShardSet
from tests.conftest import RunManager, StartControlPlane
from tests.integration.test_replicas import DEADLINE, LEASE_PATH, Memcacheds, Replica, started
from tests.support.api_objects import new_namespace
from tests.support.control_plane import ControlPlane
from tests.support.crds import install_crds
from tests.support.envtest import BARE
from tests.support.eventually import consistently, eventually
from tests.support.fault_proxy import FaultProxy, Match
from tests.support.memcacheds import memcached_path

SHARDS = 8
SELECTORS = "--feature-gates=ShardedListAndWatch=true"


class Replicas(Memcacheds):
    """Replicas of one manager for the Memcacheds of a namespace."""

    def __init__(self, plane: ControlPlane, namespace: str, begin: Callable[[], Replica]) -> None:
        super().__init__(plane, namespace)
        self._begin = begin
        self.all: list[Replica] = []
        self.running: list[Replica] = []

    def start(self, count: int) -> list[Replica]:
        started = [self._begin() for _ in range(count)]
        self.all += started
        self.running += started
        return started

    def shards(self, replica: Replica) -> ShardSet:
        """Return the shards that the replica owns according to its metrics."""
        status = replica.manager.metrics().select("leader_election_master_status")
        held = {each.labels["name"] for each in status if each.value}
        return ShardSet.of(
            SHARDS, [each for each in range(SHARDS) if lease_of_shard("operator-manager", each) in held]
        )

    def have_equally_many_shards(self) -> None:
        """Assert that each shard has one owner, and that the replicas' shard counts differ by at most one."""
        held = [sorted(self.shards(each).numbers) for each in self.running]
        assert sorted(chain.from_iterable(held)) == list(range(SHARDS)), held
        shares = [len(each) for each in held]
        assert max(shares) - min(shares) <= 1, shares
        wanted = [
            int(each.manager.metrics().value("operator_manager_shards_wanted")) for each in self.running
        ]
        assert wanted == shares

    def cache_only_their_shards(self) -> None:
        """Assert that each replica caches exactly the number of objects and of children in its shards."""
        for each in self.running:
            share = self.count_objects(each)
            for kind in ("memcacheds.cache.example.com", "deployments.apps"):
                held = each.manager.metrics().value("operator_manager_cache_objects", kind=kind)
                assert held == share, (kind, sorted(self.shards(each).numbers))

    def count_objects(self, replica: Replica) -> int:
        """Return the number of objects in the replica's shards; it may be 0."""
        made = self.plane.api.get(memcached_path(self.namespace))["items"]
        assert len(made) == len(self.names)
        theirs = self.shards(replica)
        return sum(each["metadata"]["uid"] in theirs for each in made)

    def writers(self, name: str) -> list[int]:
        """Return the numbers of the replicas that wrote an object, in the order of the writes."""
        writes = [
            (each.at, number)
            for number, replica in enumerate(self.all)
            for each in replica.object_writes()
            if f"/{name}" in each.path
        ]
        return [number for number, _ in groupby(number for _, number in sorted(writes))]


@pytest.fixture
def replicas(
    request: pytest.FixtureRequest,
    bare_control_plane: ControlPlane,
    own_control_plane: StartControlPlane,
    run_manager: RunManager,
    fault_proxy: Callable[[Path], FaultProxy],
) -> Replicas:
    """Start replicas for an API server that has the flags in the test's parameter."""
    plane = bare_control_plane
    if flags := getattr(request, "param", ()):
        plane = own_control_plane(parts=BARE, apiserver_flags=flags)
    install_crds(plane)
    namespace = new_namespace(plane)

    def begin() -> Replica:
        return started(run_manager, fault_proxy(plane.kubeconfig), namespace, f"--shards={SHARDS}")

    return Replicas(plane, namespace, begin)


@pytest.mark.long  # twice the renew deadline
def test_replica_keeps_its_shards_when_each_lease_request_takes_a_second(
    bare_control_plane: ControlPlane, run_manager: RunManager, fault_proxy: Callable[[Path], FaultProxy]
):
    """Delay each Lease request by 1 s; the replica needs many connections to renew 64 Leases in time."""
    install_crds(bare_control_plane)
    proxy = fault_proxy(bare_control_plane.kubeconfig)
    proxy.delay(1.0, match=Match(path=LEASE_PATH), times=None)
    replica = started(run_manager, proxy, new_namespace(bare_control_plane), "--shards=64")

    def holds_all() -> None:
        status = replica.manager.metrics().select("leader_election_master_status")
        assert sum(each.value for each in status) == 64

    eventually(holds_all)
    consistently(holds_all, during=2 * DEADLINE)


@pytest.mark.long
@pytest.mark.contract
@pytest.mark.parametrize(
    "replicas",
    [pytest.param((), id="whole watch"), pytest.param((SELECTORS,), id="watch by shard selector")],
    indirect=True,
)
def test_each_object_has_one_writer_while_replicas_start_and_stop(
    replicas: Replicas, request: pytest.FixtureRequest
):
    killed, stopped, _ = replicas.start(3)
    eventually(replicas.have_equally_many_shards)
    replicas.create(30)
    eventually(replicas.converged)
    eventually(replicas.cache_only_their_shards)
    if request.node.callspec.params["replicas"]:
        selector = urlencode({"shardSelector": ShardSet.of(2, {0}).selector})
        selected = replicas.plane.api.get(f"{memcached_path(replicas.namespace)}?{selector}")["items"]
        assert 0 < len(selected) < len(replicas.names), "the server ignores the selector"
    writing = [each.works() for each in replicas.running if replicas.count_objects(each)]
    assert all(writing)
    killed.manager.kill()
    replicas.running.remove(killed)
    replicas.create(20)
    eventually(replicas.converged)
    eventually(replicas.have_equally_many_shards)
    assert stopped.manager.stop() == 0
    replicas.running.remove(stopped)
    replicas.create(20)
    eventually(replicas.converged)
    (late,) = replicas.start(1)
    eventually(replicas.have_equally_many_shards)
    replicas.create(30)
    eventually(replicas.converged)
    assert late.works()
    seen = late.manager.metrics()
    taken = seen.value("operator_manager_lease_handovers_total", direction="taken")
    assert taken == seen.value("operator_manager_lease_unowned_seconds_count") == SHARDS // 2
    assert seen.value("operator_manager_moved_keys_total", controller="memcached", direction="taken")
    eventually(replicas.cache_only_their_shards)
    again = {name: wrote for name in replicas.names if len(wrote := replicas.writers(name)) > len(set(wrote))}
    assert again == {}, "a replica wrote an object again after another replica"
