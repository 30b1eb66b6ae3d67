"""What is served under one path."""

from __future__ import annotations

from typing import Protocol

__all__ = ["LINES", "Endpoint"]

LINES = 60
"""How many refusals and failures of one webhook the log tells in a minute. Whoever reaches the port can bring
about more; the metrics have all of them."""


class Endpoint(Protocol):
    """Answers reviews, bytes for bytes: it knows nothing of how they travel."""

    @property
    def path(self) -> str:
        """Where it is asked."""

    @property
    def max_body(self) -> int:
        """How many bytes a review may have."""

    @property
    def identified(self) -> bool:
        """Whether an API server can be told to show a certificate there."""

    async def answer(self, body: bytes | bytearray, *, waits: float | None = None) -> bytes | bytearray:
        """The answer to the review in `body`, whose sender gives up after `waits` seconds (None: not known).

        Raises `Unanswered` where there can be none.
        """
