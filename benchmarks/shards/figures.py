"""The figures of replicas that divide the objects, and their file format."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Self

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Change", "Figures", "Use"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Traffic and CPU of a replica, for its start and for changes of objects; memory after its start."""

    objects: int
    """The number of objects in the replica's shards."""
    start_mb: float
    """Megabytes received from the API server, counted as bytes of TLS."""
    start_cpu_s: float
    memory_mb: float
    """Resident memory when the replica is idle after its start."""
    load_mb: float = 0.0
    load_cpu_s: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The effect of a replica that joins or leaves, while other replicas stay."""

    what: str
    replicas: int
    """The number of replicas after the change."""
    moved: int
    """The number of objects that moved to another replica."""
    expected: int
    """The number of objects that had to move: all of the replica that left, or the new replica's share."""
    unowned_s: list[float]
    """For each shard of the replica that left: seconds until another replica has the shard's Lease."""
    came: Use | None
    """The usage of the new replica for its start."""
    status_s: list[float]
    """The seconds until an object of the shard, changed when the replica left, has its status."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Figures:
    """The figures of one run of `python -m benchmarks.shards`."""

    date: str
    """The start of the run in UTC."""
    minutes: float
    machine: dict[str, str]
    version: str
    others: float
    """The machine's load average at the start; load by other programs lengthens all durations."""
    objects: int
    namespaces: int
    shards: int
    idle_mb: float
    """The resident memory of a replica with one object."""
    load: int
    """The number of changes, made by four clients at once, for `load_mb` and `load_cpu_s`."""
    uses: dict[str, list[Use]] = dataclasses.field(default_factory=dict)
    """The usage of each replica, by the number of replicas."""
    changes: list[Change] = dataclasses.field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the figures from a file."""
        return msgspec.json.decode(path.read_bytes(), type=cls)

    def write(self, path: Path) -> None:
        """Write the figures to a file."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
