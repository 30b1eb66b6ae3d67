"""What a webhook says of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Verdict"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Accepted, unless there is a status that says why not."""

    status: Mapping[str, Any] | None = None
    patch: Sequence[Mapping[str, Any]] = ()
    """JSON patch operations (RFC 6902) for the object."""

    warnings: Sequence[str] = ()
    """What the user is told besides."""
