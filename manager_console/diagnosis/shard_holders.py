"""A search for the replica that owns an object, in the Leases of the shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from manager.cli.settings import parse_shard_count
from manager.election.coordinator import Coordinator
from manager.election.elector import SHARD
from manager.election.lease import Lease, Leases, LeaseTiming
from manager.kube.errors import KubeError
from manager.kube.transport import Transport
from manager.operator import AnyOperator
from manager.server.access import Answers, Place
from manager.util import clock
from manager_console.diagnosis.explanation import ShardOwner
from manager_shards.coordinator import MEMBER, ShardCoordinator, lease_of_shard, number_of_shards
from manager_shards.owned import OwnedShards
from manager_shards.shard_set import ShardSet

_WITHIN, _FRESH = 2.0, 2.0
"""Seconds for reading the Leases, and for caching them: they are renewed about as often."""

_DURATION = LeaseTiming().lease_duration
"""The duration in seconds of a Lease that names none."""

_MOST_ROWS = 64


class Holder(NamedTuple):
    """The holder of a shard's Lease, or a replica with its own Lease."""

    name: str = ""
    """The replica's name; empty if the Lease has no holder."""

    renewed: str = ""
    """The last renewal, by the holder's clock; empty if unknown."""

    silent: bool = False
    """Whether the Lease has expired, by our clock."""


class Holders(NamedTuple):
    """The holders of all shards, and the participating replicas, according to their Leases."""

    shards: Sequence[Holder]
    """The holder of each shard, by number."""

    replicas: Sequence[Holder]
    """All participating replicas, including those without a shard."""

    def owner(self, controller: str, uid: str, *, shared_out: bool) -> ShardOwner:
        """Return the holder of the object's shard or, with `shared_out=False`, of the first shard."""
        count = len(self.shards)
        shard = ShardSet.of(count, ()).number_of(uid) if shared_out else 0
        return ShardOwner(controller, shard, count, *self.shards[shard])


class ShardLeases:
    """A reader of the Leases of a program's shards and replicas."""

    def __init__(self, transport: Transport, *, namespace: str, name: str) -> None:
        """Create a reader; `name` is the first shard's Lease, and the prefix of the other Leases' names."""
        self._name = name
        self._group = Leases(transport, namespace=namespace, label=f"{name}/lease")
        self._namespace = namespace

    def place(self, shard: int | None = None) -> Place:
        """Return a shard's Lease as an argument for an access check; None means all Leases."""
        name = "" if shard is None else lease_of_shard(self._name, shard)
        return Place("coordination.k8s.io", "leases", self._namespace, name)

    async def read(self) -> Holders | None:
        """Read all Leases; return None if replicas do not divide the objects. Raises `KubeError`."""
        label = self._group.label
        found = {lease.name: lease for lease in await self._group.read_all(timeout=_WITHIN)}
        first = found.get(self._name)
        try:
            count = parse_shard_count((first and number_of_shards(first, self._name)) or "")
        except ValueError:
            return None
        names = [lease_of_shard(self._name, shard) for shard in range(count)]
        of_shards = {name: lease for name, lease in found.items() if lease.labels.get(label) == SHARD}
        shards = [_holder(of_shards[name]) if name in of_shards else Holder() for name in names]
        members = [each for each in found.values() if each.labels.get(label) == f"{MEMBER}-{count}"]
        return Holders(shards, list(map(_holder, members)))


def _holder(lease: Lease) -> Holder:
    renewed = str(lease.spec.get("renewTime") or "")
    try:
        age = (clock.now() - datetime.fromisoformat(renewed)).total_seconds()
    except (ValueError, TypeError):  # no time, or one without a zone
        return Holder(lease.holder)
    return Holder(lease.holder, renewed, bool(lease.holder) and age > (lease.duration or _DURATION))


def shared_out_by(operators: Sequence[AnyOperator]) -> dict[str, bool]:
    """Return, by operator name, whether the replicas divide the operator's objects.

    An operator that works in all replicas without leader election is left out.
    """
    return {each.name: each.shared_out for each in operators if each.options.needs_leader_election}


class ShardHolders:
    """The owners of objects: whether this replica is one, from memory; the holders' names from the Leases."""

    def __init__(self, leases: ShardLeases, owned: OwnedShards, controllers: Mapping[str, bool]) -> None:
        """Set the sources; `controllers` is the result of `shared_out_by`."""
        self.place = leases.place
        self._leases = leases
        self._owned = owned
        self._controllers = controllers
        self._answers: Answers[str, Holders | str] = Answers(limit=1, keep_yes=_FRESH, keep_no=_FRESH)

    def shard_of(self, controller: str, uid: str) -> int | None:
        """Return the shard of an object; None if every replica works on it."""
        if controller not in self._controllers:
            return None
        return self._owned.number_of(uid) if self._controllers[controller] else 0

    def is_ours(self, controller: str, uid: str | None) -> bool:
        """Return whether this replica reconciles an object; False if the shard depends on an unknown UID."""
        if uid is None and self._controllers.get(controller):
            return False
        shard = self.shard_of(controller, uid or "")
        return shard is None or self._owned.find(shard) is not None

    async def owner(self, controller: str, shard: int, *, may_know: bool) -> ShardOwner:
        """Return a shard's owner; the replica's name is included only if the user `may_know` it."""
        owner = ShardOwner(controller, shard, self._owned.count, here=self._owned.find(shard) is not None)
        holders = await self._read() if may_know else "you may not get its lease"
        if isinstance(holders, str):
            owner.problem = holders
        else:
            owner.holder, owner.renewed, owner.silent = holders.shards[shard]
        return owner

    async def replicas(self) -> dict[str, Any]:
        """Return the rows of the overview (each replica with its shards), or why there are none."""
        holders = await self._read()
        if isinstance(holders, str):
            return {"problem": holders, "rows": [], "more": 0}
        last = {replica.name: replica for replica in holders.replicas}
        numbers: dict[str, list[int]] = {}
        # The most recently renewed Lease shows since when the replica is silent.
        for number, holder in sorted(enumerate(holders.shards), key=lambda each: each[1].renewed):
            last[holder.name] = holder
            numbers.setdefault(holder.name, []).append(number)
        rows = [
            {**last[name]._asdict(), "numbers": _spans(sorted(mine)), "shards": len(mine)}
            for name in sorted(last)
            for mine in [numbers.get(name, [])]
        ]
        return {"problem": "", "rows": rows[:_MOST_ROWS], "more": len(rows[_MOST_ROWS:])}

    async def _read(self) -> Holders | str:
        return await self._answers.get("", self._find)

    async def _find(self) -> Holders | str:
        try:
            holders = await self._leases.read()
        except KubeError as error:
            return f"the leases cannot be read: {error}"
        if holders is None or len(holders.shards) != self._owned.count:
            return f"the leases do not say that there are {self._owned.count} shards"
        return holders


def holders_of(
    coordinator: Coordinator, transport: Transport, operators: Sequence[AnyOperator]
) -> ShardHolders:
    """Return the owners of the shards into which a manager's `coordinator` divides the objects."""
    assert isinstance(coordinator, ShardCoordinator)
    election = coordinator.config
    leases = ShardLeases(transport, namespace=election.namespace, name=election.name)
    return ShardHolders(leases, coordinator.shards, shared_out_by(operators))


def _spans(numbers: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{first}-{last}" if last > first else f"{first}" for first, last in spans)
