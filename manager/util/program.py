"""The name by which a cluster distinguishes programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 40
"""With all suffixes, such as "-webhook-service", it is still a valid object name of each kind."""


@dataclass(frozen=True, slots=True)
class Program:
    """The name and the version of a program, for the cluster.

    Field managers, user agent, Events, lease, Secret, webhook configurations, environment variables and entry
    points use the name. Raises `ValueError` for a name that is invalid for them.
    """

    name: str
    version: str
    former_names: tuple[str, ...] = ()
    """Earlier names of the program: its operators take over the fields that they have written under these."""

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


def loaded_entries(group: str, what: str) -> Iterator[tuple[str, str, Any]]:
    """Yield the description, package and object of each entry point in the group, in order.

    The description begins with `what`, in which `{name}` is the entry point's name. Raises `ClickException`
    for an entry point that cannot be loaded.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - 20 ms, which `version` saves

    for entry in sorted(entry_points(group=group), key=lambda each: (each.name, each.value)):
        package = "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
        this = f"{what.format(name=entry.name)} of {package}, {entry.value}"
        try:
            found = entry.load()
        except Exception as error:
            said = " ".join(str(error).split())
            raise click.ClickException(f"{this}, cannot be loaded: {type(error).__name__}: {said}") from error
        yield this, package, found
