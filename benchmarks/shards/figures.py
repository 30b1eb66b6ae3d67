"""The figures of replicas that share the objects, and their file format."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Self

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Change", "Figures", "Use"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A replica's usage: from its start until idle, and then for its part of the changes."""

    objects: int
    """The number of objects in its shards."""
    start_mb: float
    """Received from the API server, as bytes of TLS."""
    start_cpu_s: float
    memory_mb: float
    """Resident, when all that there was to do at the start is done."""
    load_mb: float = 0.0
    load_cpu_s: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A replica that comes or goes while the others stay."""

    what: str
    replicas: int
    """The number of replicas after the change."""
    moved: int
    """Objects that moved to another replica."""
    expected: int
    """Objects that had to move: those of the replica that left, or the share of the one that joined."""
    unowned_s: list[float]
    """Seconds by shard of the replica that left, from its end until another replica has the Lease."""
    came: Use | None
    """The usage of the replica that joined, for its start."""
    status_s: list[float]
    """Seconds from then until an object of the shard, changed then, has its status."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Figures:
    """The figures of a run."""

    date: str
    """The start of the run in UTC."""
    minutes: float
    machine: dict[str, str]
    version: str
    others: float
    """The machine's load average at the start: other programs' load makes seconds longer."""
    objects: int
    namespaces: int
    shards: int
    idle_mb: float
    """Resident memory of a replica while there was one object."""
    load: int
    """The number of objects that were changed one after the other for `load_mb` and `load_cpu_s`."""
    uses: dict[str, list[Use]] = dataclasses.field(default_factory=dict)
    """The usage by number of replicas."""
    changes: list[Change] = dataclasses.field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file that `write` wrote."""
        return msgspec.json.decode(path.read_bytes(), type=cls)

    def write(self, path: Path) -> None:
        """Write the figures to a file."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
