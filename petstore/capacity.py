"""How much a store takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["MAX_CALLS", "MAX_MESSAGE_BYTES", "Capacity"]

MAX_CALLS: Final = 2048
"""Calls at once; gRPC refuses more (RESOURCE_EXHAUSTED)."""

MAX_MESSAGE_BYTES: Final = 256 * 1024
"""Bytes of a request; gRPC refuses longer ones (RESOURCE_EXHAUSTED)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How much the storage takes; it refuses what is beyond."""

    pets: int = 1_000_000
    """Pets in the store."""

    data_bytes: int = 768 * 1024 * 1024
    """Bytes of the pages of the file that hold something."""

    waiting_pets: int = 10_000
    """Pets in calls that wait for their turn to be written."""
