"""Check of an API server's audit log: which replica wrote for an object, and which one held its shard then.

The server stores all objects under one sequence of resource versions. So the log tells, without a clock,
which Lease claim precedes a write.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Self

from manager.shards.shard_set import ShardSet

GROUP = "replicas"
"""The log has what its members write, and nothing else."""

_WRITTEN = [
    {"group": "coordination.k8s.io", "resources": ["leases"]},
    {"group": "cache.example.com", "resources": ["memcacheds", "memcacheds/status"]},
    {"group": "apps", "resources": ["deployments"]},
]
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [
        {
            "level": "RequestResponse",
            "userGroups": [GROUP],
            "verbs": ["create", "update", "patch", "delete"],
            "resources": _WRITTEN,
        },
        {"level": "None"},
    ],
}


def audited(folder: Path) -> tuple[Path, list[str]]:
    """Return the path of an audit log in the folder, and the API server's flags that write it as one file."""
    policy, log = folder / "audit-policy.json", folder / "audit.log"
    policy.write_text(json.dumps(_POLICY))
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-maxsize=100000"]
    return log, flags


def events_of(log: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of the log; skip a last line that is still incomplete."""
    with log.open() as lines:
        yield from (json.loads(line) for line in lines if line.endswith("\n"))


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

    def covers(self, write: Write) -> bool:
        """Return whether that was written in it."""
        after_its_end = self.ended is not None and write.version > self.ended
        return write.version > self.version and not after_its_end and write.at < self.expires


@dataclasses.dataclass(frozen=True, slots=True)
class Write:
    """Write that changed something; `uid` belongs to the written object or to its owner."""

    who: str
    at: float
    version: int
    uid: str
    what: str


class Ownership:
    """Ownership periods and writes from the log, each in order."""

    def __init__(self, terms: dict[int, list[Term]], writes: list[Write], count: int) -> None:
        self.terms = terms
        self.writes = writes
        self._shards = ShardSet.of(count, range(count))

    @classmethod
    def of(cls, events: Iterable[dict[str, Any]], *, lease: str, count: int) -> Self:
        """Create from the log's events; `lease` is the name of the first of `count` shards' Leases."""
        changes = _changes(events)
        names = {lease: 0} | {f"{lease}-{number}": number for number in range(1, count)}
        terms: dict[int, list[Term]] = {number: [] for number in range(count)}
        writes = []
        for version, event in changes:
            if event["objectRef"]["resource"] != "leases":
                writes.append(_write(version, event))
            elif (number := names.get(event["objectRef"]["name"])) is not None:
                _renew(terms[number], version, event)
        return cls(terms, writes, count)

    def writers(self) -> dict[str, list[str]]:
        """Return the successive writers of each object."""
        every = sorted(self.writes, key=lambda each: (each.uid, each.version))
        return {
            uid: [who for who, _ in groupby(each.who for each in writes)]
            for uid, writes in groupby(every, key=lambda each: each.uid)
        }

    def faults(self) -> list[str]:
        """Return overlapping periods of one shard, and writes outside of the writer's period."""
        return [*self._overlapping(), *self._outside()]

    def _overlapping(self) -> Iterator[str]:
        for number, terms in self.terms.items():
            for before, after in pairwise(terms):
                if not before.given_back and after.began < before.expires:
                    early = before.expires - after.began
                    yield f"shard {number}: {after.who} took it {early:.3f} s before {before.who}'s ran out"

    def _outside(self) -> Iterator[str]:
        for write in self.writes:
            number = self._shards.number_of(write.uid)
            terms = self.terms[number]
            if not any(term.who == write.who and term.covers(write) for term in terms):
                had = [term.who for term in terms if term.covers(write)]
                yield f"{write.who}: {write.what} in shard {number}, which was of {had or 'nobody'}"


def _changes(events: Iterable[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Return stored objects in order; drop no-op writes, because they repeat an earlier version."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for event in sorted(events, key=lambda each: _seconds(each["requestReceivedTimestamp"])):
        metadata = event.get("responseObject", {}).get("metadata", {})
        if event["responseStatus"]["code"] < 300 and "resourceVersion" in metadata:
            found.setdefault((metadata["uid"], int(metadata["resourceVersion"])), event)
    return sorted(((version, event) for (_, version), event in found.items()), key=lambda each: each[0])


def _renew(terms: list[Term], version: int, event: dict[str, Any]) -> None:
    spec, at = event["responseObject"]["spec"], _seconds(event["requestReceivedTimestamp"])
    who, expires = event["user"]["username"], at + spec["leaseDurationSeconds"]
    last = terms[-1] if terms and terms[-1].ended is None else None
    if last is not None and spec.get("holderIdentity") and last.who == who:
        last.expires = expires
        return
    if last is not None:
        last.ended, last.given_back = version, last.who == who
    if spec.get("holderIdentity"):
        terms.append(Term(who, at, version, expires))


def _write(version: int, event: dict[str, Any]) -> Write:
    metadata, target = event["responseObject"]["metadata"], event["objectRef"]
    owners = (each["uid"] for each in metadata.get("ownerReferences", ()) if each.get("controller"))
    parts = ("resource", "namespace", "name", "subresource")
    path = "/".join(target[part] for part in parts if part in target)
    return Write(
        who=event["user"]["username"],
        at=_seconds(event["requestReceivedTimestamp"]),
        version=version,
        uid=next(owners, metadata["uid"]),
        what=f"{event['verb']} {path}",
    )


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
