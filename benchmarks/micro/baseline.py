"""The saved figures of an earlier run, and a comparison with them."""

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
    """The saved figures of a run.

    Attributes: costs: by name, in millionths of the reference (see `figures.cost`). versions: the versions of
    Python and of libraries that affect the speed.
    """

    costs: Mapping[str, Middle]
    versions: Mapping[str, str]

    @classmethod
    def now(cls, costs: Mapping[str, Middle]) -> Baseline:
        """Return a baseline with the current versions."""
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
        """Return the components with different versions, as text."""
        names = {**self.versions, **other.versions}
        return [
            f"{name} {other.versions.get(name, '-')} instead of {self.versions.get(name, '-')}"
            for name in names
            if self.versions.get(name) != other.versions.get(name)
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """The change of a benchmark's figure."""

    before: Middle
    after: Middle

    @property
    def factor(self) -> float:
        """The ratio of the new figure to the old one; 1.5 is fifty percent more."""
        return self.after.value / self.before.value

    @property
    def doubt(self) -> float:
        """The distance from 1 within which the factor means nothing.

        A median of nine is about three fifths of the spread away from the true median; three times that
        exceeds chance.
        """
        return max(TOLERANCE, 2 * math.hypot(self.before.spread, self.after.spread))

    @property
    def is_slower(self) -> bool:
        """Whether the figure is certainly larger."""
        return self.factor > 1 + self.doubt

    @property
    def is_faster(self) -> bool:
        """Whether the figure is certainly smaller."""
        return self.factor < 1 / (1 + self.doubt)


def changes(before: Baseline, costs: Mapping[str, Middle]) -> dict[str, Change]:
    """Return the changes of all benchmarks that both runs have, by name."""
    return {name: Change(before.costs[name], after) for name, after in costs.items() if name in before.costs}
