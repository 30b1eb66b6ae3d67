"""Lines for a person, with one at the end that says how far something is."""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress

__all__ = ["Screen"]

_REDRAW_EVERY = 0.1
_LINE_EVERY = 10.0
_ERASE = "\r\x1b[K"


class Screen:
    """Results go to standard output, all else to standard error.

    On a terminal the progress is one line that is written again and again, below everything else; elsewhere
    it is a line now and then. Nobody reading any more is no reason to stop what is reported on.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` tells seconds, from anywhere."""
        self._clock = clock
        self._terminal = sys.stderr.isatty()
        self._every = _REDRAW_EVERY if self._terminal else _LINE_EVERY
        self._shown = ""
        self._shown_at = -math.inf

    def result(self, text: str) -> None:
        """A line of what the program was run for."""
        self._erase()
        try:
            print(text, file=sys.stdout, flush=True)  # noqa: T201 - a program's output is printed
        except BrokenPipeError:
            # The rest, and what the interpreter flushes at its end, goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        self._draw()

    def say(self, text: str) -> None:
        """A line about how it goes."""
        self._erase()
        _write(f"{text}\n")
        self._draw()

    def progress(self, text: str) -> None:
        """How far it is; shown if the last one has been there for long enough."""
        now = self._clock()
        if now - self._shown_at < self._every:
            return
        self._shown_at = now
        if self._terminal:
            self._shown = text
            self._draw()
        else:
            _write(f"{text}\n")

    def begin_progress(self) -> None:
        """Something begins whose progress is shown: off a terminal, not before there is some."""
        self._shown_at = -math.inf if self._terminal else self._clock()

    def end_progress(self) -> None:
        """It is over; its line goes."""
        self._erase()
        self._shown = ""

    def _draw(self) -> None:
        if self._shown:
            width = shutil.get_terminal_size().columns - 1
            _write(f"{_ERASE}{self._shown[:width]}")

    def _erase(self) -> None:
        if self._shown:
            _write(_ERASE)


def _write(text: str) -> None:
    with suppress(OSError):
        print(text, end="", file=sys.stderr, flush=True)  # noqa: T201 - as above
