"""Who is told how a migration goes."""

from __future__ import annotations

from typing import Protocol

from manager.api import ObjectKey
from manager.migration.definition import Definition

__all__ = ["Report"]


class Report(Protocol):
    """Takes what there is to tell while a migration goes on; nothing here may wait."""

    def begins(self, definition: Definition, *, after: int) -> None:
        """The objects are gone through; `after` of them an earlier run has done."""

    def settling(self, seconds: float) -> None:
        """A pause of `seconds`, until all servers have taken up the definition."""

    def advanced(self, done: int, total: int | None) -> None:
        """So many objects are done, of so many in all, if that is known."""

    def refused(self, key: ObjectKey, reason: str) -> None:
        """The server does not let this object be written."""

    def waiting(self, problem: str) -> None:
        """The server cannot answer, and is asked again."""

    def begins_anew(self) -> None:
        """The definition has changed meanwhile, and with it what is right."""
