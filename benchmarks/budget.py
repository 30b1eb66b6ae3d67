"""The time that a whole run may take: what does not fit any more is left out, and the page says so."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Budget"]

# A machine that has been slower than usual so far may be slower still.
RESERVE = 1.1


class Budget:
    """So many seconds from the moment it is made; keeps account of what had to be left out."""

    def __init__(
        self,
        seconds: float,
        note: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`note` is told of everything that is left out, in a line."""
        self._clock = clock
        self._end = clock() + seconds
        self._note = note

    def allows(self, seconds: float, what: str) -> bool:
        """Whether `what` still fits, which needs so many seconds with all that has to follow."""
        if self._end - self._clock() >= seconds:
            return True
        self._note(f"left out, as the time is up: {what}")
        return False

    def rounds(self, count: int, usual: float, what: str, *, after: float = 0.0) -> Iterator[int]:
        """The numbers of those rounds that fit, one after the other; the first is always among them.

        `usual`: the seconds that a round usually takes; what one did take counts instead if it is more.
        `after`: those that have to be left for what comes after the last round.
        """
        longest = usual
        for number in range(1, count + 1):
            began = self._clock()
            if number > 1 and not self.allows(longest + after * RESERVE, f"{what}, from round {number} on"):
                return
            yield number
            longest = max(longest, self._clock() - began)
