"""Figures of an earlier run, in a file, and what has become of them since."""

from __future__ import annotations

import dataclasses
import json
import math
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING

from benchmarks.micro.figures import Middle

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TOLERANCE = 0.2
"""A change up to this is none. Caches and addresses fall out differently in each process, which alone makes
some figures differ by a tenth."""

_LIBRARIES = ("aiohttp", "msgspec", "orjson", "prometheus-client", "pydantic", "structlog", "uvloop")


class BadBaseline(Exception):
    """The file cannot be used; the message says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Baseline:
    """What was measured when.

    Attributes:
        costs: by name, in millionths of the reference (see `figures.cost`).
        versions: of Python and the libraries whose speed is part of ours.
    """

    costs: Mapping[str, Middle]
    versions: Mapping[str, str]

    @classmethod
    def now(cls, costs: Mapping[str, Middle]) -> Baseline:
        """Figures of this moment."""
        versions = {name: version(name) for name in _LIBRARIES}
        return cls(costs, {"python": platform.python_version(), **versions})

    def save(self, path: Path) -> None:
        """Write it to a file; raises OSError."""
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Baseline:
        """Read what `save` wrote; raises BadBaseline."""
        try:
            document = json.loads(path.read_text())
            costs = {
                name: Middle(float(middle["value"]), float(middle["spread"]))
                for name, middle in document["costs"].items()
            }
            return cls(costs, dict(document["versions"]))
        except OSError as error:
            raise BadBaseline(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadBaseline(
                f"{path} was not written by --save ({type(error).__name__}: {error})"
            ) from error

    def other_versions(self, other: Baseline) -> list[str]:
        """What is of another version there, for people."""
        names = {**self.versions, **other.versions}
        return [
            f"{name} {other.versions.get(name, '-')} instead of {self.versions.get(name, '-')}"
            for name in names
            if self.versions.get(name) != other.versions.get(name)
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """From an earlier figure of a benchmark to a new one."""

    before: Middle
    after: Middle

    @property
    def factor(self) -> float:
        """1.5 is half as much again; 1 is no change."""
        return self.after.value / self.before.value

    @property
    def doubt(self) -> float:
        """How far the factor may be from 1 without meaning anything.

        A median of nine is some three fifths of the spread from where one of very many would be, and three
        times that is beyond chance.
        """
        return max(TOLERANCE, 2 * math.hypot(self.before.spread, self.after.spread))

    @property
    def is_slower(self) -> bool:
        """Beyond doubt."""
        return self.factor > 1 + self.doubt

    @property
    def is_faster(self) -> bool:
        """Beyond doubt."""
        return self.factor < 1 / (1 + self.doubt)


def changes(before: Baseline, costs: Mapping[str, Middle]) -> dict[str, Change]:
    """By name, what was measured both times."""
    return {name: Change(before.costs[name], after) for name, after in costs.items() if name in before.costs}
