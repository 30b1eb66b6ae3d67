"""The API server's audit log of the writes of replicas with shards, while replicas start and stop.

All objects of the server have one sequence of resource versions. So the log shows, without a clock, which
acquisition of a Lease precedes a write.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from manager_shards.shard_set import ShardSet
from tests.conftest import RunManager, StartControlPlane
from tests.support.control_plane import Feature
from tests.support.control_plane_kinds import ControlPlaneKind
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.load import Load
from tests.support.manager_process import ManagerProcess
from tests.support.memcacheds import memcached, memcached_path

GROUP = "replicas"
"""The audit log has only writes by members of this group."""
RULE = {
    "level": "RequestResponse",
    "userGroups": [GROUP],
    "verbs": ["create", "update", "patch"],
    "resources": [
        {"group": "coordination.k8s.io", "resources": ["leases"]},
        {"group": "cache.example.com", "resources": ["memcacheds", "memcacheds/status"]},
        {"group": "apps", "resources": ["deployments"]},
    ],
}
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [RULE, {"level": "None"}],
}
SHARDS, MANY = 16, 1_000
SELECTORS = "--feature-gates=ShardedListAndWatch=true"
LEASE, DEADLINE = 60, 45
"""Seconds; longer than usual, because a busy machine may answer late."""
WITHIN = 600.0


class Change(NamedTuple):
    """A stored write: resource version, time, user and stored object."""

    version: int
    at: float
    writer: str
    obj: dict[str, Any]


@dataclasses.dataclass(slots=True)
class Term:
    """Period in which one replica holds a shard: from its acquisition to its release or the next acquisition.

    `claim` and `end` are resource versions; `began` and `expires` are times.
    """

    holder: str
    claim: int
    began: float
    expires: float
    end: float = math.inf
    released: bool = False

    def covers(self, write: Change) -> bool:
        return self.claim < write.version < self.end and write.at < self.expires


def changes_in(log: Path) -> list[Change]:
    """Return the stored writes in the order of versions, without writes that changed nothing."""
    found: dict[tuple[str, int], Change] = {}
    # The last line may be incomplete, because the replicas still renew their Leases.
    for line in log.read_text().rpartition("\n")[0].splitlines():
        event = json.loads(line)
        metadata = event.get("responseObject", {}).get("metadata", {})
        if event["responseStatus"]["code"] < 300 and "resourceVersion" in metadata:
            at = datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
            user, version = event["user"]["username"], int(metadata["resourceVersion"])
            change = Change(version, at, user, event["responseObject"])
            key = metadata["uid"], version
            found[key] = min(found.get(key, change), change, key=lambda each: each.at)
    return sorted(found.values(), key=lambda change: change.version)


def terms_in(claims: Iterable[Change]) -> list[Term]:
    """Return the periods of a shard's holders from the writes to the shard's Lease."""
    terms: list[Term] = []
    for each in claims:
        spec = each.obj["spec"]
        is_held = bool(spec.get("holderIdentity"))
        # All replicas have this machine's clock, so another replica may acquire the Lease this long after it.
        expires = datetime.fromisoformat(spec["renewTime"]).timestamp() + spec["leaseDurationSeconds"]
        if terms and terms[-1].end == math.inf:
            if is_held and terms[-1].holder == each.writer:
                terms[-1].expires = expires
                continue
            terms[-1].end, terms[-1].released = each.version, terms[-1].holder == each.writer
        if is_held:
            terms.append(Term(each.writer, each.version, each.at, expires))
    return terms


def owner_of(obj: dict[str, Any]) -> str:
    """Return the UID of a Memcached, or of the Memcached that owns a Deployment."""
    owners = [each["uid"] for each in obj["metadata"].get("ownerReferences", ())]
    return str(owners[0] if owners else obj["metadata"]["uid"])


@pytest.mark.whole
@pytest.mark.timeout(3 * WITHIN)
@pytest.mark.parametrize(
    "flags",
    [
        pytest.param([SELECTORS], id="sharded watch", marks=pytest.mark.contract),
        pytest.param([], id="whole watch", marks=pytest.mark.oldest),
    ],
)
def test_replicas_write_only_objects_of_shards_that_they_own_when_shards_move(
    control_plane_kind: ControlPlaneKind,
    own_control_plane: StartControlPlane,
    run_manager: RunManager,
    tmp_path: Path,
    flags: list[str],
):
    # A server without audit logs does not start with such flags.
    control_plane_kind.create(tmp_path / "not-started").require(Feature.AUDIT_LOG)
    policy, log = tmp_path / "policy.json", tmp_path / "audit.log"
    policy.write_text(json.dumps(POLICY))
    audit = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-maxsize=100000")
    plane = own_control_plane(parts=BARE, apiserver_flags=[*audit, *flags], crds=True)
    path, rng, running = memcached_path("default"), random.Random(7), list[ManagerProcess]()
    names = [f"m-{number:04}" for number in range(MANY)]

    def start(user: str) -> ManagerProcess:
        times = f"--leader-elect-lease-duration={LEASE}s", f"--leader-elect-renew-deadline={DEADLINE}s"
        flags = ("--controllers=memcached", f"--shards={SHARDS}", "--leader-election-namespace=default")
        running.append(run_manager(plane.user_kubeconfig(user, "system:masters", GROUP), *flags, *times))
        return running[-1]

    def change() -> None:
        plane.api.patch(f"{path}/{rng.choice(names)}", {"spec": {"size": rng.randint(1, 9)}})

    def have_equally_many_shards() -> None:
        held = [each.metrics().select("leader_election_master_status") for each in running]
        shares = [sum(each.value for each in status) for status in held]
        assert sum(shares) == SHARDS, shares
        assert max(shares) - min(shares) <= 1, shares

    def converged() -> None:
        for each in plane.api.get(path)["items"]:
            assert each.get("status", {}).get("observedGeneration") == each["metadata"]["generation"]

    killed, stopped, _ = [start(user) for user in ("killed", "stopped", "last")]
    plane.api.create_many(path, map(memcached, names))
    eventually(have_equally_many_shards, within=WITHIN)
    with Load(change, callers=1, every=0.02) as load:
        killed.kill()
        running.remove(killed)
        eventually(have_equally_many_shards, within=WITHIN, every=0.5)
        assert stopped.stop() == 0
        running.remove(stopped)
        eventually(have_equally_many_shards, within=WITHIN, every=0.5)
        start("late")
        eventually(have_equally_many_shards, within=WITHIN, every=0.5)
    assert load.failures == {}
    eventually(converged, within=WITHIN, every=1.0)

    changes = changes_in(log)
    leases = ["operator-manager", *(f"operator-manager-{number}" for number in range(1, SHARDS))]
    terms = [terms_in(each for each in changes if each.obj["metadata"]["name"] == name) for name in leases]
    for before, after in (pair for each in terms for pair in pairwise(each)):
        assert before.released or after.began >= before.expires, "a replica claimed a shard too early"
    shards, writers = ShardSet.of(SHARDS, range(SHARDS)), dict[str, set[str]]()
    for write in (each for each in changes if each.obj["kind"] != "Lease"):
        owner = owner_of(write.obj)
        owners = [term.holder for term in terms[shards.number_of(owner)] if term.covers(write)]
        assert owners == [write.writer], write
        writers.setdefault(owner, set()).add(write.writer)
    assert len(writers) == MANY
    assert any(len(each) > 1 for each in writers.values()), "no object was written by two replicas"
    assert all(len(each) > 1 for each in terms if each[0].holder in {"killed", "stopped"})
