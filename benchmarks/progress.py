"""The time of a run: its limit, and for people the current step and the remaining time."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Budget", "Progress", "minutes"]

# A slow machine may become slower.
RESERVE = 1.1


class Progress:
    """A status line on a terminal; in a pipe or a file, a line per step."""

    def __init__(self, expected: float, stream: TextIO | None = None) -> None:
        """Start the display; `expected` is the sum of the usual seconds of all steps."""
        self._stream = stream or sys.stderr
        self._expected = expected
        self._planned = 0.0
        self._began = time.monotonic()

    def step(self, number: int | str, peer: str, what: str, seconds: float) -> None:
        """Show the step that begins, its usual seconds and, for a step of a round, the round's `number`."""
        elapsed = time.monotonic() - self._began
        share = min(1.0, self._planned / self._expected) if self._expected else 1.0
        # The pace so far is assumed to continue; the 30 seconds dampen it at the start.
        pace = (elapsed + 30) / (self._planned + 30)
        rest = max(0.0, self._expected - self._planned) * pace
        self._planned += seconds
        which = f"round {number}, {peer}" if number else peer
        times = f"{minutes(elapsed)} gone, about {minutes(rest)} to go"
        self._say(f"[{share:4.0%}] {times}: {which}: {what}")

    def note(self, text: str) -> None:
        """Print a line that stays on the screen."""
        self._clear()
        print(text, file=self._stream, flush=True)

    def end(self) -> None:
        """Print the total time."""
        self._clear()
        print(f"done in {minutes(time.monotonic() - self._began)}", file=self._stream, flush=True)

    def _say(self, text: str) -> None:
        self._clear()
        print(text, end="" if self._stream.isatty() else "\n", file=self._stream, flush=True)

    def _clear(self) -> None:
        if self._stream.isatty():
            print("\r\x1b[K", end="", file=self._stream)


def minutes(seconds: float) -> str:
    """Format seconds as minutes and seconds: 2:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Budget:
    """A time limit that starts with its creation; steps that no longer fit are skipped, and noted."""

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
