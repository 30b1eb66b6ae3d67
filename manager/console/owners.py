"""Which replica works on an object, by the Leases of shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from manager import clock
from manager.election.config import LeaseTiming
from manager.election.lease import Lease
from manager.election.lease_client import LeaseGroup
from manager.election.shard_count import SHARD, lease_of_shard, number_of_shards
from manager.kube.errors import KubeError
from manager.kube.transport import Transport
from manager.server.answers import Answers
from manager.server.reviews import Place
from manager.shards.owned import OwnedShards
from manager.shards.ranges import Ranges, parse_count
from manager.shards.registry import MEMBER

_WITHIN = 2.0
"""Time limit for reading the Leases, in seconds."""

_FRESH = 2.0
"""Seconds for which an answer is kept: Leases are renewed about as often."""

_DURATION = LeaseTiming().lease_duration
"""The duration of a Lease that has none, in seconds."""

_MOST_ROWS = 64


class Held(NamedTuple):
    """The Lease of a range or a replica."""

    holder: str
    """Empty where nobody has it."""

    renewed: str
    """The last renewal, by the holder's clock; empty if unknown."""

    silent: bool
    """Whether it has expired, by our clock."""


_NOBODY = Held("", "", False)


class Shares(NamedTuple):
    """How replicas share the work."""

    ranges: Sequence[Held]
    """The ranges, by number."""

    members: Sequence[Held]
    """The replicas that take part."""


class Leases:
    """The Leases of a program's ranges and replicas."""

    def __init__(self, transport: Transport, *, namespace: str, name: str) -> None:
        """`name` is that of the first range's Lease, and begins the names of the others."""
        self.namespace = namespace
        self._name = name
        self._group = LeaseGroup(transport, namespace=namespace, label=f"{name}/lease")

    def of(self, number: int) -> str:
        """The name of the Lease of a range."""
        return lease_of_shard(self._name, number)

    async def read(self) -> Shares | None:
        """Read them; None if replicas do not share the work. Raises `KubeError`."""
        found = {lease.name: lease for lease in await self._group.read_all(timeout=_WITHIN)}
        first = found.get(self._name)
        try:
            count = parse_count((first and number_of_shards(first, self._name)) or "")
        except ValueError:
            return None
        named = [found.get(self.of(number)) for number in range(count)]
        label = self._group.label
        ranges = [
            _NOBODY if lease is None or lease.labels.get(label) != SHARD else _held(lease) for lease in named
        ]
        kind = f"{MEMBER}-{count}"
        members = [_held(lease) for lease in found.values() if lease.labels.get(label) == kind]
        return Shares(ranges, members)


def _held(lease: Lease) -> Held:
    renewed = str(lease.spec.get("renewTime") or "")
    try:
        age = (clock.now() - datetime.fromisoformat(renewed)).total_seconds()
    except (ValueError, TypeError):  # no time, or one of no zone
        return Held(lease.holder, "", False)
    return Held(lease.holder, renewed, bool(lease.holder) and age > (lease.duration or _DURATION))


def owners_told(shares: Shares, controllers: Mapping[str, bool], uid: str) -> Iterator[dict[str, Any]]:
    """For each controller, which replica works on the object with that UID, as JSON.

    `controllers` are those that take part, with whether replicas share their objects; else the holder of the
    first range has all.
    """
    every = Ranges.of(len(shares.ranges), ())
    for name, shared_out in controllers.items():
        number = every.number_of(uid) if shared_out else 0
        yield owner_told(name, number, len(shares.ranges), shares.ranges[number])


def owner_told(
    controller: str, number: int, of: int, held: Held | None, *, here: bool | None = None, problem: str = ""
) -> dict[str, Any]:
    """Whose an object is. `held` is None where that is not known, for a `problem`; `here` whether it is the
    replica's that tells it, if one does.
    """
    return {
        "controller": controller,
        "range": number,
        "of": of,
        "holder": None if held is None else held.holder,
        "renewed": "" if held is None else held.renewed,
        "silent": held is not None and held.silent,
        "here": here,
        "problem": problem,
    }


class Owners:
    """Tells which replica works on an object: from memory if it is this one, else by the Leases."""

    def __init__(self, leases: Leases, shards: OwnedShards, controllers: Mapping[str, bool]) -> None:
        """`controllers` as in `owners_told`."""
        self._leases = leases
        self._owned = shards
        self._controllers = controllers
        self._read: Answers[str, Shares | str] = Answers(limit=1, keep_yes=_FRESH, keep_no=_FRESH)

    def place(self, number: int | None = None) -> Place:
        """The Lease that one must be allowed to get to see a range's holder; by default all Leases."""
        name = "" if number is None else self._leases.of(number)
        return Place("coordination.k8s.io", "leases", self._leases.namespace, name)

    def number_of(self, controller: str, uid: str) -> int | None:
        """The range of an object; None where all replicas work on it."""
        shared_out = self._controllers.get(controller)
        if shared_out is None:
            return None
        return self._owned.number_of(uid) if shared_out else 0

    def is_ours(self, controller: str, uid: str | None) -> bool:
        """Whether this replica works on an object; it does not know the UID of one that another works on."""
        shared_out = self._controllers.get(controller)
        if shared_out is None:
            return True
        number = 0 if not shared_out else None if uid is None else self._owned.number_of(uid)
        return number is not None and self._owned.find(number) is not None

    async def told(self, controller: str, number: int, *, may: bool) -> dict[str, Any]:
        """Which replica holds a range, as JSON; the holder only if the user `may` know it."""
        held, problem = None, "you may not get its lease"
        if may:
            shares = await self._shares()
            held, problem = (None, shares) if isinstance(shares, str) else (shares.ranges[number], "")
        here = self._owned.find(number) is not None
        return owner_told(controller, number, self._owned.count, held, here=here, problem=problem)

    async def replicas(self) -> dict[str, Any]:
        """All replicas, and the ranges of each."""
        shares = await self._shares()
        if isinstance(shares, str):
            return {"problem": shares, "rows": [], "more": 0}
        rows: dict[str, dict[str, Any]] = {}
        for number, held in enumerate(shares.ranges):
            row = rows.setdefault(
                held.holder, {"numbers": [], "renewed": held.renewed, "silent": held.silent}
            )
            row["numbers"].append(number)
            # The one that was renewed last says since when the replica is silent.
            if held.renewed > row["renewed"]:
                row |= {"renewed": held.renewed, "silent": held.silent}
        for member in shares.members:
            rows.setdefault(
                member.holder, {"numbers": [], "renewed": member.renewed, "silent": member.silent}
            )
        shown = [
            {**row, "holder": holder, "numbers": _spans(row["numbers"]), "ranges": len(row["numbers"])}
            for holder, row in sorted(rows.items())
        ]
        return {"problem": "", "rows": shown[:_MOST_ROWS], "more": len(shown[_MOST_ROWS:])}

    async def _shares(self) -> Shares | str:
        return await self._read.get("", self._find)

    async def _find(self) -> Shares | str:
        try:
            shares = await self._leases.read()
        except KubeError as error:
            return f"the leases cannot be read: {error}"
        if shares is None or len(shares.ranges) != self._owned.count:
            return f"the leases do not say that there are {self._owned.count} ranges"
        return shares


def _spans(numbers: Sequence[int]) -> str:
    """Sorted numbers as `0-2, 5`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{first}-{last}" if last > first else f"{first}" for first, last in spans)
