"""Tells a person what runs, how long it has, and about how long it will take."""

from __future__ import annotations

import sys
import time
from typing import TextIO

__all__ = ["Progress", "minutes"]


class Progress:
    """One line on a terminal, brought up to date; a line for each step in a pipe or a file."""

    def __init__(self, expected: float, stream: TextIO | None = None) -> None:
        """`expected`: the sum of the seconds that all steps usually take."""
        self._stream = stream or sys.stderr
        self._expected = expected
        self._planned = 0.0
        self._began = time.monotonic()

    def step(self, number: int | str, peer: str, what: str, seconds: float) -> None:
        """What begins now, and how long it usually takes; `number` is the round, if it is of one."""
        elapsed = time.monotonic() - self._began
        share = min(1.0, self._planned / self._expected) if self._expected else 1.0
        # What has been slower or faster than usual so far goes on so; at first there is nothing to go by.
        pace = (elapsed + 30) / (self._planned + 30)
        rest = max(0.0, self._expected - self._planned) * pace
        self._planned += seconds
        which = f"round {number}, {peer}" if number else peer
        times = f"{minutes(elapsed)} gone, about {minutes(rest)} to go"
        self._say(f"[{share:4.0%}] {times}: {which}: {what}")

    def note(self, text: str) -> None:
        """Something that should stay on the screen."""
        self._clear()
        print(text, file=self._stream, flush=True)

    def end(self) -> None:
        """All is done."""
        self._clear()
        print(f"done in {minutes(time.monotonic() - self._began)}", file=self._stream, flush=True)

    def _say(self, text: str) -> None:
        self._clear()
        print(text, end="" if self._stream.isatty() else "\n", file=self._stream, flush=True)

    def _clear(self) -> None:
        if self._stream.isatty():
            print("\r\x1b[K", end="", file=self._stream)


def minutes(seconds: float) -> str:
    """As a clock shows them: 2:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
