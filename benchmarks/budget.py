"""The time limit of a whole run: the suite skips steps that no longer fit, and the page names them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Budget"]

# A slow machine may become slower.
RESERVE = 1.1


class Budget:
    """A time limit that starts with its creation, and keeps a record of skipped steps."""

    def __init__(
        self,
        seconds: float,
        note: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the time limit; `note` gets a line for each skipped step."""
        self._clock = clock
        self._end = clock() + seconds
        self._note = note

    def allows(self, seconds: float, what: str) -> bool:
        """Return whether `what` still fits; `seconds` includes all required later steps."""
        if self._end - self._clock() >= seconds:
            return True
        self._note(f"left out, as the time is up: {what}")
        return False

    def rounds(self, count: int, usual: float, what: str, *, after: float = 0.0) -> Iterator[int]:
        """Yield the numbers of the rounds that fit; the first one always does.

        `usual`: the usual seconds of a round; the longest round so far counts instead if it is longer.

        `after`: the seconds to reserve for the steps after the last round.
        """
        longest = usual
        for number in range(1, count + 1):
            began = self._clock()
            if number > 1 and not self.allows(longest + after * RESERVE, f"{what}, from round {number} on"):
                return
            yield number
            longest = max(longest, self._clock() - began)
