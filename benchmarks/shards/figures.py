"""What was measured of replicas that share the objects, as a file keeps it."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Change", "Figures", "Use"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What one replica has used: from its start until it was idle, and then for its part of the changes."""

    objects: int
    """Those that it works on."""
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
    """How many there are then."""
    moved: int
    """Objects that have another replica then."""
    expected: int
    """Those that have to move: of who has gone, or the share of who has come."""
    unowned_s: list[float]
    """For each range of the one that has gone: from its release, or the kill, until another has its Lease."""
    came: Use | None
    """The start of who has come."""
    status_s: list[float]
    """From then until an object of the range, which was changed then, has its status."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Figures:
    """One run."""

    date: str
    """When it began, in UTC."""
    minutes: float
    machine: dict[str, str]
    version: str
    others: float
    """The load average of the machine when it began: what others did, by which seconds are longer."""
    objects: int
    namespaces: int
    ranges: int
    idle_mb: float
    """Resident memory of a replica while there was one object."""
    load: int
    """Objects that were changed, one after the other, for `load_mb` and `load_cpu_s`."""
    uses: dict[str, list[Use]] = dataclasses.field(default_factory=dict)
    """By the number of replicas."""
    changes: list[Change] = dataclasses.field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Self:
        """From a file that `write` wrote."""
        data = json.loads(path.read_text())
        uses = {count: [Use(**each) for each in found] for count, found in data.pop("uses").items()}
        changes = [
            Change(**{**each, "came": Use(**each["came"]) if each["came"] else None})
            for each in data.pop("changes")
        ]
        return cls(**data, uses=uses, changes=changes)

    def write(self, path: Path) -> None:
        """To a file."""
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")
