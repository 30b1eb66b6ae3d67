"""Ownership check of audit logs: it finds its faults, and no others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from manager.shards.shard_set import ShardSet
from tests.support.ownership import Ownership

COUNT = 2
LEASE_SECONDS = 10
# One object in each shard.
FIRST, SECOND = (
    next(uid for uid in map("{}-uid".format, range(100)) if uid in ShardSet.of(COUNT, {number}))
    for number in range(COUNT)
)


class Log:
    """An audit log that is made up, a second and a version for each event."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.now = 0.0
        self.version = 100

    def wait(self, seconds: float) -> None:
        """Advance the time without a write."""
        self.now += seconds

    def renews(self, who: str, number: int = 0) -> None:
        """Claim the Lease of a shard, or renew it."""
        self._lease(who, number, {"holderIdentity": f"host_{who}", "leaseDurationSeconds": LEASE_SECONDS})

    def gives_back(self, who: str, number: int = 0) -> None:
        """Release it."""
        self._lease(who, number, {"holderIdentity": "", "leaseDurationSeconds": 1})

    def writes(self, who: str) -> None:
        """Write the status of the first object."""
        metadata = {"uid": FIRST, "name": FIRST}
        target = {"resource": "memcacheds", "name": FIRST, "subresource": "status"}
        self._event(who, target, {"metadata": metadata})

    def applies(self, who: str, owner: str) -> None:
        """Write what belongs to an object."""
        owners = [{"uid": "somebody", "controller": False}, {"uid": owner, "controller": True}]
        metadata = {"uid": f"child-of-{owner}", "ownerReferences": owners}
        self._event(who, {"resource": "deployments", "name": owner}, {"metadata": metadata})

    def ownership(self) -> Ownership:
        """Return the ownership from the events in the log's order: by the time of the answers."""
        return Ownership.of(reversed(self.events), lease="program", count=COUNT)

    def _lease(self, who: str, number: int, spec: dict[str, Any]) -> None:
        name = f"program-{number}" if number else "program"
        self._event(who, {"resource": "leases", "name": name}, {"metadata": {"uid": name}, "spec": spec})

    def _event(self, who: str, target: dict[str, str], answer: dict[str, Any]) -> None:
        self.now += 1
        self.version += 1
        answer["metadata"]["resourceVersion"] = str(self.version)
        self.events.append(
            {
                "verb": "patch",
                "user": {"username": who},
                "objectRef": target,
                "responseStatus": {"code": 200},
                "responseObject": answer,
                "requestReceivedTimestamp": datetime.fromtimestamp(self.now, UTC).isoformat(),
            }
        )


def test_ownership_finds_writes_outside_of_terms_and_terms_that_overlap():
    log = Log()
    log.renews("a")
    log.renews("b", 1)
    log.writes("a")
    log.applies("b", SECOND)
    log.gives_back("a")
    log.renews("b")
    log.applies("b", FIRST)
    found = log.ownership()
    assert found.faults() == []
    assert found.writers() == {FIRST: ["a", "b"], SECOND: ["b"]}
    log.writes("a")
    log.wait(LEASE_SECONDS - 4)
    log.renews("c")
    assert log.ownership().faults() == [
        "shard 0: c took it 1.000 s before b's ran out",
        f"a: patch memcacheds/{FIRST}/status in shard 0, which was of ['b']",
    ]
