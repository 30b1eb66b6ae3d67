"""The name by which a cluster tells a program from others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 40
"""With all that is appended to it, such as "-webhook-service", it still names an object of each kind."""


@dataclass(frozen=True, slots=True)
class Program:
    """The name and the version of a program, as a cluster sees them.

    Field managers, user agent, Events, lease, Secret, webhook configurations, environment variables and entry
    points are called after it. Raises `ValueError` for a name that they cannot have.
    """

    name: str
    version: str
    former_names: tuple[str, ...] = ()
    """Names that it had before: its operators take over the fields that they have written under these."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > _LONGEST:
            raise ValueError(
                f"{self.name!r} cannot name a program: lower-case words joined by '-' are expected, "
                f"at most {_LONGEST} characters that begin with a letter"
            )

    @property
    def agent(self) -> str:
        """Return the user agent of the program's requests."""
        return f"{self.name}/{self.version}"

    @property
    def prefix(self) -> str:
        """Return the prefix of the names of the program's objects."""
        return f"{self.name}-"

    @property
    def variables(self) -> str:
        """Return the prefix of the program's environment variables."""
        return f"{self.name.replace('-', '_').upper()}_"

    @property
    def entry_points(self) -> str:
        """Return the group of entry points by which installed packages add operators to the program."""
        return f"{self.name.replace('-', '_')}.operators"

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of the program's objects."""
        return {"app.kubernetes.io/name": self.name}


def origin_of(entry: EntryPoint) -> str:
    """Return the name and version of the package that has the entry point."""
    return "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
