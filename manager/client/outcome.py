"""What an apply did."""

from __future__ import annotations

import enum
from typing import Generic, NamedTuple, TypeVar

from manager.api import Resource

__all__ = ["Applied", "Outcome"]

R = TypeVar("R", bound=Resource)


class Outcome(enum.Enum):
    """Whether an apply created the object, changed it, or found nothing to change."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


class Applied(NamedTuple, Generic[R]):
    """The object as the server has it now, as it was before (None unless it was changed), and the outcome."""

    object: R
    previous: R | None
    outcome: Outcome
