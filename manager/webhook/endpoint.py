"""What is served under one path."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Endpoint"]


class Endpoint(Protocol):
    """Answers reviews, bytes for bytes: it knows nothing of how they travel."""

    @property
    def path(self) -> str:
        """Where it is asked."""

    @property
    def max_body(self) -> int:
        """How many bytes a review may have."""

    async def answer(self, body: bytes | bytearray, *, waits: float | None = None) -> bytes | bytearray:
        """The answer to the review in `body`, whose sender gives up after `waits` seconds (None: not known).

        Raises `Unanswered` where there can be none.
        """
