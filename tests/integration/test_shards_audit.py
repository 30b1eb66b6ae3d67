"""The API server's audit log of replicas that share the objects while replicas start and stop.

The server stores all objects under one sequence of resource versions. So the log tells, without a clock,
which Lease claim precedes a write.
"""

from __future__ import annotations

import dataclasses
import json
import random
import threading
from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from manager_shards.shard_set import ShardSet
from tests.conftest import RunManager, StartControlPlane
from tests.support.api_objects import deployment_path
from tests.support.control_plane import ControlPlane, Feature
from tests.support.control_plane_kinds import ControlPlaneKind
from tests.support.crds import install_crds
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.manager_process import ManagerProcess
from tests.support.memcacheds import memcached, memcached_path

GROUP = "replicas"
"""The log has the writes of its members, and nothing else."""
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [
        {
            "level": "RequestResponse",
            "userGroups": [GROUP],
            "verbs": ["create", "update", "patch", "delete"],
            "resources": [
                {"group": "coordination.k8s.io", "resources": ["leases"]},
                {"group": "cache.example.com", "resources": ["memcacheds", "memcacheds/status"]},
                {"group": "apps", "resources": ["deployments"]},
            ],
        },
        {"level": "None"},
    ],
}
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


@dataclasses.dataclass(slots=True)
class Term:
    """Period in which one replica holds a shard.

    Attributes:
        began: time of the claim, in seconds; `version` is the claim's resource version.
        expires: time at which the last renewal would expire, by the server's clock.
        ended: resource version of the release, or of another replica's claim; None while the period goes on.
        given_back: whether the replica released the shard.
    """

    who: str
    began: float
    version: int
    expires: float
    ended: int | None = None
    given_back: bool = False

    def covers(self, version: int, at: float) -> bool:
        """Return whether a write was made in this period."""
        after_its_end = self.ended is not None and version > self.ended
        return version > self.version and not after_its_end and at < self.expires


class Ownership:
    """Ownership periods by shard, and the writers of each object, from the lines of an audit log."""

    def __init__(self, lines: list[str]) -> None:
        self.terms: dict[int, list[Term]] = {number: [] for number in range(SHARDS)}
        self.writers: dict[str, list[str]] = defaultdict(list)
        self._outside: list[str] = []
        # A line may still be incomplete at the end.
        changes = stored_changes([json.loads(line) for line in lines if line.endswith("\n")])
        names = {
            f"operator-manager-{number}" if number else "operator-manager": number for number in self.terms
        }
        for version, event in changes:
            if (lease := names.get(event["objectRef"]["name"])) is not None:
                renew(self.terms[lease], version, event)
        shards = ShardSet.of(SHARDS, range(SHARDS))
        for version, event in changes:
            if event["objectRef"]["resource"] == "leases":
                continue
            who, uid = event["user"]["username"], owner_of(event)
            if self.writers[uid][-1:] != [who]:
                self.writers[uid].append(who)
            number = shards.number_of(uid)
            had = [term.who for term in self.terms[number] if term.covers(version, received(event))]
            if who not in had:
                self._outside.append(f"{who}: {event['objectRef']} in shard {number}, which was of {had}")

    def faults(self) -> list[str]:
        """Return overlapping periods of one shard, and writes outside of the writer's period."""
        overlapping = [
            f"shard {number}: {after.who} took it before the lease of {before.who} ran out"
            for number, terms in self.terms.items()
            for before, after in pairwise(terms)
            if not before.given_back and after.began < before.expires
        ]
        return overlapping + self._outside


def stored_changes(events: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Return stored objects by version; drop no-op writes, because they repeat an earlier version."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for event in sorted(events, key=received):
        metadata = event.get("responseObject", {}).get("metadata", {})
        if event["responseStatus"]["code"] < 300 and "resourceVersion" in metadata:
            found.setdefault((metadata["uid"], int(metadata["resourceVersion"])), event)
    return sorted(((version, event) for (_, version), event in found.items()), key=lambda each: each[0])


def renew(terms: list[Term], version: int, event: dict[str, Any]) -> None:
    """Begin, prolong or end a period, as the write of a shard's Lease says."""
    spec, who = event["responseObject"]["spec"], event["user"]["username"]
    expires = received(event) + spec["leaseDurationSeconds"]
    last = terms[-1] if terms and terms[-1].ended is None else None
    if last is not None and spec.get("holderIdentity") and last.who == who:
        last.expires = expires
        return
    if last is not None:
        last.ended, last.given_back = version, last.who == who
    if spec.get("holderIdentity"):
        terms.append(Term(who, received(event), version, expires))


def owner_of(event: dict[str, Any]) -> str:
    """Return the UID of the written object, or of its owner."""
    metadata = event["responseObject"]["metadata"]
    owners = (each["uid"] for each in metadata.get("ownerReferences", ()) if each.get("controller"))
    return str(next(owners, metadata["uid"]))


def received(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()


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
        """Create `count` more Memcacheds, spread over all namespaces."""
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
    """Return whether status and Deployment match the latest spec."""
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
        self.log = log
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


@pytest.fixture
def audited_plane(
    request: pytest.FixtureRequest,
    control_plane_kind: ControlPlaneKind,
    own_control_plane: StartControlPlane,
    run_manager: RunManager,
    tmp_path: Path,
) -> Audited:
    """Start a control plane with an audit log and the flags of the test's parameter."""
    # A server without audit logs does not start with these flags.
    control_plane_kind.create(tmp_path / "not-started").require(Feature.AUDIT_LOG)
    policy, log = tmp_path / "audit-policy.json", tmp_path / "audit.log"
    policy.write_text(json.dumps(POLICY))
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-maxsize=100000"]
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
    found = Ownership(replicas.log.read_text().splitlines(keepends=True))
    assert found.faults() == []
    assert len(found.writers) == len(crowd), "the log has them all"
    assert any(len(wrote) > 1 for wrote in found.writers.values()), "some have moved"
    assert all(len(terms) > 1 for terms in found.terms.values() if terms[0].who != "replica-3")
