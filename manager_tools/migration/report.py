"""The options of a migration, and its printed report."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import enum
import os
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
"""The result for an object: rewritten by any client, in the storage version before, or deleted."""

_PROGRESS_EVERY = 10.0

_TOLD = 100
"""The maximum number of refused objects of a kind to print; further ones are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationOptions:
    """Options of a migration; the defaults are gentle to a small API server.

    Attributes:
        page_size: objects per list request; an interrupted run continues at the start of a page.
        concurrency: objects written at the same time.
        rate: maximum objects per second.
        settle: seconds to wait before the first write, because each API server notices a new storage
            version by itself, and stores the old version until then.
        dry_run: the API server tries all writes and stores nothing.
    """

    page_size: int = 500
    concurrency: int = 8
    rate: float = 200.0
    settle: float = 5.0
    dry_run: bool = False


class Outcome(enum.Enum):
    """The results that a migration of one kind can have."""

    NOTHING_TO_DO = enum.auto()
    """All objects were already stored in the storage version."""
    DONE = enum.auto()
    """All objects are now in the storage version (or, in a dry run, would be)."""
    REFUSED = enum.auto()
    """Some objects were refused; all others are migrated, and the stored versions are not trimmed."""


@dataclass(slots=True)
class Tally:
    """The numbers of objects that were rewritten, already migrated, deleted meanwhile, or refused."""

    rewritten: int = 0
    no_need: int = 0
    gone: int = 0
    refused: int = 0

    @property
    def all(self) -> int:
        """Return the total number of objects."""
        return self.rewritten + self.no_need + self.gone + self.refused

    def count(self, result: Rewritten) -> None:
        """Count an object with the result `rewritten`, already migrated, or deleted meanwhile."""
        setattr(self, result, getattr(self, result) + 1)


class Report:
    """A printer of lines about the migration of one CRD."""

    def __init__(self, name: str, options: MigrationOptions, clock: Callable[[], float]) -> None:
        self._name = name
        self._dry_run = options.dry_run
        self._clock = clock
        self._began = self._shown_at = clock()
        self._before = 0
        self._refused = 0
        self._problem = ""

    def _say(self, text: str) -> None:
        say(f"{self._name}: {text}")

    def _result(self, text: str) -> None:
        _print_result(f"{self._name}: {text}")

    # Lines during the migration.

    def settling(self, seconds: float) -> None:
        """Report a pause of `seconds`, until all API servers use the new CRD."""
        if seconds:
            pause = format_duration(seconds)
            self._say(f"waiting {pause}, until every API server knows the definition")

    def begins(self, definition: StoredDefinition, *, after: int) -> None:
        """Report the start; `after` objects were already migrated by an earlier run."""
        self._began = self._shown_at = self._clock()
        self._before = after
        others = ", ".join(version for version in definition.stored if version != definition.storage)
        what = "trying to rewrite" if self._dry_run else "rewriting"
        self._say(f"{what} as {definition.storage} what is stored as {others}")
        if after:
            self._say(f"continuing after {after:,} objects of an earlier run")

    def advanced(self, done: int, total: int | None) -> None:
        """Print at intervals the number of migrated objects, and the total if known."""
        self._problem = ""
        now = self._clock()
        if now - self._shown_at >= _PROGRESS_EVERY:
            self._shown_at = now
            of = f" of {total:,} ({100 * done // total} %){self._left(done, total)}" if total else ""
            self._say(f"{done:,}{of}")

    def refused(self, key: ObjectKey, reason: str) -> None:
        """Report an object whose write the server refused."""
        self._refused += 1
        if self._refused <= _TOLD:
            self._say(f"refused: {key}: {reason}")

    def waiting(self, problem: str) -> None:
        """Report a problem that leads to a retry, unless it equals the last problem since a success."""
        if problem != self._problem:
            self._problem = problem
            self._say(f"trying again: {problem}")

    def begins_anew(self) -> None:
        """Report a restart from the beginning, because the CRD has changed."""
        self._say("the definition has changed; starting again")

    # Lines at the end.

    def nothing_to_do(self, definition: StoredDefinition) -> None:
        """Report that all objects are already in the storage version."""
        self._result(f"nothing to do: all objects are stored as {definition.storage}")

    def skipped(self, why: str) -> None:
        """Report that a CRD needs no migration, for the reason `why`."""
        self._result(f"skipped: {why}")

    def ended(self, definition: StoredDefinition, outcome: Outcome, tally: Tally) -> None:
        """Report the result after the last object."""
        if self._refused > _TOLD:
            self._say(f"refused: {self._refused - _TOLD:,} more")
        took = format_duration(round(self._clock() - self._began, 1))
        if self._dry_run:
            counts = f"{tally.all - tally.refused:,} of {tally.all:,} objects could be rewritten"
        else:
            counts = _counted(tally)
        self._result(f"{counts}, in {took}")
        stored = " and ".join(definition.stored)
        if outcome is Outcome.REFUSED:
            what = "was" if tally.refused == 1 else "were"
            text = f"{tally.refused:,} {what} refused; status.storedVersions stays {stored}"
        elif self._dry_run:
            text = f"status.storedVersions would be {definition.storage} alone, and is {stored}"
        else:
            text = f"status.storedVersions is {definition.storage} alone, and was {stored}"
        self._result(text)

    def failed(self, why: str) -> None:
        """Report that a migration failed."""
        self._say(why)

    def interrupted(self, tally: Tally) -> None:
        """Report that the user interrupted the migration."""
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
        parts.append(f"{tally.no_need:,} already migrated")
    if tally.gone:
        parts.append(f"{tally.gone:,} deleted meanwhile")
    noun = "object" if tally.all == 1 else "objects"
    return f"{tally.all:,} {noun}: {', '.join(parts)}"


def say(text: str) -> None:
    """Print a line about the progress on standard error; a closed stderr does not stop the migration."""
    with suppress(OSError):
        print(on_one_line(text), file=sys.stderr, flush=True)


def _print_result(text: str) -> None:
    try:
        print(on_one_line(text), flush=True)
    except BrokenPipeError:
        # Redirect all further output to /dev/null, including the interpreter's last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
