"""What became of the objects of a kind."""

from __future__ import annotations

from dataclasses import dataclass

from manager.migration.rewriter import Rewritten

__all__ = ["Tally"]


@dataclass(slots=True)
class Tally:
    """Objects by what became of them in this run."""

    rewritten: int = 0
    no_need: int = 0
    gone: int = 0
    refused: int = 0

    @property
    def all(self) -> int:
        """How many were looked at."""
        return self.rewritten + self.no_need + self.gone + self.refused

    def count(self, result: Rewritten) -> None:
        """Count an object that is stored as it should be, or nowhere."""
        match result:
            case Rewritten.YES:
                self.rewritten += 1
            case Rewritten.NO_NEED:
                self.no_need += 1
            case Rewritten.GONE:
                self.gone += 1
