"""The time limit of a run, and a display of the current step."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Budget", "Progress", "minutes"]


class Progress:
    """A display of the current step: one line on standard error for each step."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def step(self, number: int | str, peer: str, what: str) -> None:
        """Print that a step begins and, if it belongs to a round, the round's `number`."""
        which = f"round {number}, {peer}" if number else peer
        self.note(f"{minutes(time.monotonic() - self._began)} gone: {which}: {what}")

    def note(self, text: str) -> None:
        """Print a line of text."""
        print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Print the total duration of all steps."""
        self.note(f"done in {minutes(time.monotonic() - self._began)}")


def minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Budget:
    """A time limit, counted from its creation; steps that no longer fit are skipped and reported."""

    def __init__(
        self,
        seconds: float,
        note: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the time limit of `seconds`; `note` receives a line for each skipped step."""
        self._clock = clock
        self._end = clock() + seconds
        self._note = note

    def allows(self, what: str, seconds: float = 0.0) -> bool:
        """Return whether the remaining time is enough for step `what`, which usually takes `seconds`."""
        if self._end - self._clock() > seconds:
            return True
        self._note(f"left out because of the time limit: {what}")
        return False

    def rounds(self, count: int, what: str) -> Iterator[int]:
        """Yield the round numbers from 1 to `count` while the time is enough; 1 is always yielded.

        It assumes that each round takes as long as the longest round so far.
        """
        longest = 0.0
        for number in range(1, count + 1):
            began = self._clock()
            if number > 1 and not self.allows(f"{what}, from round {number} on", longest):
                return
            yield number
            longest = max(longest, self._clock() - began)
