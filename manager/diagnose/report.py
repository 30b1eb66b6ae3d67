"""The report of a running manager about one object: the console serves it as JSON, `explain` reads it."""

from __future__ import annotations

import msgspec

from manager.kube.decoding import shallow_at_once
from manager.runs import ReconcileRecord, Trigger


class NextReconcile(msgspec.Struct):
    """The next reconcile of an object."""

    at: float | None
    """Unix time; None is as soon as a worker is free."""

    triggers: tuple[Trigger, ...]


class ControllerReport(msgspec.Struct):
    """The past, running and next reconciles of an object by one controller. All times are Unix time."""

    controller: str
    state: str
    paused: bool
    uid: str | None
    """The object's UID in the cache, by which a reader finds out whether it is the same object."""

    running: ReconcileRecord | None
    next: NextReconcile | None
    runs: list[ReconcileRecord]
    """The last reconciles, the oldest first."""


class ShardOwner(msgspec.Struct):
    """The replica that works on an object, for one controller."""

    controller: str
    shard: int
    shards: int
    holder: str | None = None
    """The replica; empty if the shard has none, None if it is not known, for a `problem`."""

    renewed: str = ""
    """The last renewal of the lease, by the holder's clock; empty if unknown."""

    silent: bool = False
    """Whether the lease has expired, by our clock."""

    here: bool | None = None
    """Whether the replica that reports is the owner; None if no replica does."""

    problem: str = ""


class ManagerReport(msgspec.Struct):
    """A manager's answer about an object."""

    controllers: list[ControllerReport]
    owners: list[ShardOwner] = []
    """Empty where replicas do not share the work."""


def decode_report(answer: bytes) -> ManagerReport:
    """Decode a manager's answer. Raises `ValueError` for anything else: any program may answer."""
    return _decode(shallow_at_once(answer))


_decode = msgspec.json.Decoder(ManagerReport).decode
