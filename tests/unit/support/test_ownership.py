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

    def writes(self, who: str, uid: str = FIRST, *, code: int = 200, changes: bool = True) -> None:
        """Write the status of an object."""
        metadata = {"uid": uid, "name": uid}
        target = {"resource": "memcacheds", "name": uid, "subresource": "status"}
        self._event(who, target, {"metadata": metadata}, code=code, changes=changes)

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

    def _event(
        self,
        who: str,
        target: dict[str, str],
        answer: dict[str, Any],
        *,
        code: int = 200,
        changes: bool = True,
    ) -> None:
        self.now += 1
        self.version += changes
        answer["metadata"]["resourceVersion"] = str(self.version)
        self.events.append(
            {
                "verb": "patch",
                "user": {"username": who},
                "objectRef": target,
                "responseStatus": {"code": code},
                "responseObject": answer,
                "requestReceivedTimestamp": datetime.fromtimestamp(self.now, UTC).isoformat(),
            }
        )


def test_ownership_finds_no_fault_in_writes_within_successive_terms():
    log = Log()
    log.renews("a")
    log.renews("b", 1)
    log.writes("a")
    log.applies("b", SECOND)
    log.gives_back("a")
    log.renews("b")
    log.writes("b")
    log.applies("b", FIRST)
    log.wait(LEASE_SECONDS)
    log.renews("c")
    log.writes("c")
    found = log.ownership()
    assert found.faults() == []
    assert found.writers() == {FIRST: ["a", "b", "c"], SECOND: ["b"]}


def test_a_write_after_the_range_was_given_back_is_found():
    log = Log()
    log.renews("a")
    log.gives_back("a")
    log.renews("b")
    log.writes("b")
    log.writes("a")
    assert log.ownership().faults() == [f"a: patch memcacheds/{FIRST}/status in shard 0, which was of ['b']"]


def test_a_write_before_the_claim_and_one_when_the_term_has_run_out_are_found():
    log = Log()
    log.writes("a")
    log.renews("a")
    log.wait(LEASE_SECONDS)
    log.writes("a")
    fault = f"a: patch memcacheds/{FIRST}/status in shard 0, which was of nobody"
    assert log.ownership().faults() == [fault, fault]


def test_ownership_finds_a_claim_before_the_term_of_another_has_run_out():
    log = Log()
    log.renews("a")
    log.wait(LEASE_SECONDS - 2)
    log.renews("b")
    assert log.ownership().faults() == ["shard 0: b took it 1.000 s before a's ran out"]
