"""The options of a migration, and what is printed about it."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import enum
import math
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from manager.api import ObjectKey
from manager.telemetry.logs import on_one_line
from manager.util.duration import format_duration
from manager_tools.migration.definitions import StoredDefinition

Rewritten = Literal["rewritten", "no_need", "gone"]
"""What became of an object: written, by the server for us or by somebody else; stored in the right version
before; or deleted meanwhile."""

_REDRAW_EVERY = 0.1
_LINE_EVERY = 10.0
_ERASE = "\r\x1b[K"

_TOLD = 100
"""The most refused objects of a kind that are printed; further ones are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationOptions:
    """Options of a migration; the defaults are gentle to a small API server.

    Attributes:
        page_size: objects per list request; an interrupted run continues at the start of a page.
        concurrency: objects written at the same time.
        rate: maximum objects per second.
        settle: seconds to wait before the first write, because each API server learns of a new storage
            version by itself, and stores the old one until then.
        dry_run: the server tries everything and stores nothing.
    """

    page_size: int = 500
    concurrency: int = 8
    rate: float = 200.0
    settle: float = 5.0
    dry_run: bool = False


class Outcome(enum.Enum):
    """How a migration ended."""

    NOTHING_TO_DO = enum.auto()
    """All objects were stored in the storage version already."""
    DONE = enum.auto()
    """They are now (or, in a dry run, would be)."""
    REFUSED = enum.auto()
    """All but the refused ones are; the stored versions have not been trimmed."""


@dataclass(slots=True)
class Tally:
    """How many objects were rewritten, needed nothing, were gone or refused."""

    rewritten: int = 0
    no_need: int = 0
    gone: int = 0
    refused: int = 0

    @property
    def all(self) -> int:
        """Return the number of all objects."""
        return self.rewritten + self.no_need + self.gone + self.refused

    def count(self, result: Rewritten) -> None:
        """Count an object that is stored as it should be, or nowhere."""
        setattr(self, result, getattr(self, result) + 1)


class Report:
    """Lines about the migration of one definition; nothing here waits."""

    def __init__(
        self, name: str, screen: Screen, options: MigrationOptions, clock: Callable[[], float]
    ) -> None:
        self._name = name
        self._screen = screen
        self._dry_run = options.dry_run
        self._clock = clock
        self._began = clock()
        self._before = 0
        self._refused = 0
        self._problem = ""

    def _say(self, text: str) -> None:
        self._screen.say(f"{self._name}: {text}")

    # While it goes on.

    def settling(self, seconds: float) -> None:
        """Report a pause of `seconds`, until all servers know the definition."""
        if seconds:
            pause = format_duration(seconds)
            self._say(f"waiting {pause}, until every API server knows the definition")

    def begins(self, definition: StoredDefinition, *, after: int) -> None:
        """Report the start; an earlier run has migrated the first `after` objects."""
        self._began, self._before = self._clock(), after
        others = ", ".join(version for version in definition.stored if version != definition.storage)
        what = "trying to rewrite" if self._dry_run else "rewriting"
        self._say(f"{what} as {definition.storage} what is stored as {others}")
        if after:
            self._say(f"going on after {after:,} objects that an earlier run has done")
        self._screen.begin_progress()

    def advanced(self, done: int, total: int | None) -> None:
        """Show the progress: migrated objects, and the total if it is known."""
        self._problem = ""
        text = f"{self._name}: {done:,}"
        if total:
            text += f" of {total:,} ({100 * done // total} %){self._left(done, total)}"
        self._screen.progress(text)

    def refused(self, key: ObjectKey, reason: str) -> None:
        """Report an object whose write the server refused."""
        self._refused += 1
        if self._refused <= _TOLD:
            self._say(f"refused: {key}: {reason}")

    def waiting(self, problem: str) -> None:
        """Report a problem that is retried; a repeated problem is shown again only after a success."""
        if problem != self._problem:
            self._problem = problem
            self._say(f"trying again: {problem}")

    def begins_anew(self) -> None:
        """Report a restart from the beginning, as the definition has changed."""
        self._say("the definition has changed meanwhile; from the start again")

    # At the end.

    def nothing_to_do(self, definition: StoredDefinition) -> None:
        """All is as it should be."""
        self._screen.result(f"{self._name}: nothing to do: all objects are stored as {definition.storage}")

    def skipped(self, why: str) -> None:
        """Report that a definition needs no migration."""
        self._screen.result(f"{self._name}: skipped: {why}")

    def ended(self, definition: StoredDefinition, outcome: Outcome, tally: Tally) -> None:
        """All objects have been looked at."""
        self._screen.end_progress()
        if self._refused > _TOLD:
            self._say(f"refused: {self._refused - _TOLD:,} more")
        took = format_duration(round(self._clock() - self._began, 1))
        if self._dry_run:
            counts = f"{tally.all - tally.refused:,} of {tally.all:,} objects could be rewritten"
        else:
            counts = _counted(tally)
        self._screen.result(f"{self._name}: {counts}, in {took}")
        stored = " and ".join(definition.stored)
        if outcome is Outcome.REFUSED:
            what = "was" if tally.refused == 1 else "were"
            text = f"{tally.refused:,} {what} refused; status.storedVersions stays {stored}"
        elif self._dry_run:
            text = f"status.storedVersions would be {definition.storage} alone, and is {stored}"
        else:
            text = f"status.storedVersions is {definition.storage} alone, and was {stored}"
        self._screen.result(f"{self._name}: {text}")

    def failed(self, why: str) -> None:
        """Report that a migration failed."""
        self._screen.end_progress()
        self._say(f"{why}")

    def interrupted(self, tally: Tally) -> None:
        """Report that the user interrupted the migration."""
        self._screen.end_progress()
        done = f" after {self._before + tally.all:,} objects" if tally.all else ""
        hint = "" if self._dry_run else "; run it again to go on"
        self._say(f"interrupted{done}{hint}")

    def _left(self, done: int, total: int) -> str:
        elapsed, own = self._clock() - self._began, done - self._before
        if elapsed < 1 or not own:
            return ""
        return f", about {format_duration(round(elapsed * (total - done) / own))} left"


def _counted(tally: Tally) -> str:
    parts = [f"{tally.rewritten:,} rewritten"]
    if tally.no_need:
        parts.append(f"{tally.no_need:,} as they should be")
    if tally.gone:
        parts.append(f"{tally.gone:,} deleted meanwhile")
    noun = "object" if tally.all == 1 else "objects"
    return f"{tally.all:,} {noun}: {', '.join(parts)}"


class Screen:
    """Output with results on standard output and all other lines on standard error.

    On a terminal, the progress is one line at the bottom that is redrawn; elsewhere it is an occasional
    line. A closed output does not stop the migration.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` tells seconds, from anywhere."""
        self._clock = clock
        self._terminal = sys.stderr.isatty()
        self._every = _REDRAW_EVERY if self._terminal else _LINE_EVERY
        self._shown = ""
        self._shown_at = -math.inf

    def result(self, text: str) -> None:
        """Print a line of the result."""
        self._erase()
        try:
            print(on_one_line(text), file=sys.stdout, flush=True)
        except BrokenPipeError:
            # The rest, and what the interpreter flushes at its end, goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        self._draw()

    def say(self, text: str) -> None:
        """Print a line about the progress of the work."""
        self._erase()
        _write(f"{on_one_line(text)}\n")
        self._draw()

    def progress(self, text: str) -> None:
        """How far it is; shown if the last one has been there for long enough."""
        now = self._clock()
        if now - self._shown_at < self._every:
            return
        self._shown_at = now
        if self._terminal:
            self._shown = on_one_line(text)
            self._draw()
        else:
            _write(f"{on_one_line(text)}\n")

    def begin_progress(self) -> None:
        """Something begins whose progress is shown: off a terminal, not before there is some."""
        self._shown_at = -math.inf if self._terminal else self._clock()

    def end_progress(self) -> None:
        """Erase the progress line."""
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
        print(text, end="", file=sys.stderr, flush=True)
