"""The limits of a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["MAX_CALLS", "MAX_MESSAGE_BYTES", "Capacity"]

MAX_CALLS: Final = 2048
"""Concurrent calls; gRPC refuses more (RESOURCE_EXHAUSTED)."""

MAX_MESSAGE_BYTES: Final = 256 * 1024
"""Bytes of a request; gRPC refuses longer ones (RESOURCE_EXHAUSTED)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The limits of the storage, which refuses what exceeds them."""

    pets: int = 1_000_000
    """Pets in the store."""

    data_bytes: int = 768 * 1024 * 1024
    """Bytes of the file's pages that contain data."""

    waiting_pets: int = 10_000
    """Pets in calls that wait to be written."""
