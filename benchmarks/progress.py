"""The progress of a run for people: the current step, its usual time, and the remaining time."""

from __future__ import annotations

import sys
import time
from typing import TextIO

__all__ = ["Progress", "minutes"]


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
