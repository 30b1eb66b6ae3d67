"""Going through all objects of a kind once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from manager.api import ObjectKey
from manager.kube.errors import KubeError
from manager.migration.definitions import (
    DefinitionChanged,
    Definitions,
    MigrationFailed,
    Position,
    Refused,
    StoredDefinition,
)
from manager.migration.listing import Found, Listing
from manager.migration.rewriter import Rewriter, Rewritten
from manager.rate_limit import TokenBucket


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationOptions:
    """What a person may choose; the defaults are kind to a small API server.

    Attributes:
        page_size: objects that are listed at once; an interrupted run goes on at the begin of a page.
        concurrency: objects that are being written at the same time.
        rate: objects a second at most.
        settle: seconds to wait before the first is written, because each API server learns of a new
            storage version by itself, and stores the old one until then.
        dry_run: the server tries everything and stores nothing.
    """

    page_size: int = 500
    concurrency: int = 8
    rate: float = 200.0
    settle: float = 5.0
    dry_run: bool = False


class Report(Protocol):
    """Takes what there is to tell while a migration goes on; nothing here may wait."""

    def begins(self, definition: StoredDefinition, *, after: int) -> None:
        """The objects are gone through; `after` of them an earlier run has done."""

    def settling(self, seconds: float) -> None:
        """A pause of `seconds`, until all servers have taken up the definition."""

    def advanced(self, done: int, total: int | None) -> None:
        """So many objects are done, of so many in all, if that is known."""

    def refused(self, key: ObjectKey, reason: str) -> None:
        """The server does not let this object be written."""

    def waiting(self, problem: str) -> None:
        """The server cannot answer, and is asked again."""

    def begins_anew(self) -> None:
        """The definition has changed meanwhile, and with it what is right."""


@dataclass(slots=True)
class Tally:
    """Objects by what became of them in this run."""

    rewritten: int = 0
    no_need: int = 0
    gone: int = 0
    refused: int = 0

    @property
    def all(self) -> int:
        """How many were looked at."""
        return self.rewritten + self.no_need + self.gone + self.refused

    def count(self, result: Rewritten) -> None:
        """Count an object that is stored as it should be, or nowhere."""
        match result:
            case Rewritten.YES:
                self.rewritten += 1
            case Rewritten.NO_NEED:
                self.no_need += 1
            case Rewritten.GONE:
                self.gone += 1


KEEP_EVERY = 10.0
"""Seconds between two positions that are kept: what a crash costs."""

FAILING = 20
"""Objects in a row at which the server fails, after which it is given up: the next would be no better."""


class Walk:
    """Has every object from a position on rewritten, and keeps the position at the definition as it goes.

    The position never passes an object that was refused, so that the next run comes to it again.
    """

    def __init__(
        self,
        definition: StoredDefinition,
        position: Position,
        *,
        definitions: Definitions,
        listing: Listing,
        rewriter: Rewriter,
        options: MigrationOptions,
        report: Report,
        tally: Tally,
    ) -> None:
        self._definition = definition
        self._position = self._kept = position
        self._kept_at = asyncio.get_running_loop().time()
        self._definitions = definitions
        self._listing = listing
        self._rewriter = rewriter
        self._options = options
        self._bucket = TokenBucket(rate=options.rate, burst=options.concurrency)
        self._report = report
        self._tally = tally
        self._done = position.done
        self._total: int | None = None
        self._failing = 0

    async def run(self) -> None:
        """Return at the end of the list, whatever was refused.

        Raises:
            DefinitionChanged: it has to begin anew.
            MigrationFailed: the server fails at every object.
            KubeError: the server did not do its part.
        """
        try:
            await self._pages()
        except DefinitionChanged:
            raise
        except BaseException:
            # Interrupted, or at an end with a server that may be away: one try, that the next run gains by.
            with suppress(KubeError, DefinitionChanged):
                await self._keep(patient=False)
            raise
        if self._tally.refused:
            await self._keep()

    async def _pages(self) -> None:
        resume = self._position.resume
        clock = asyncio.get_running_loop().time
        while True:
            page = await self._listing.page(resume)
            if page.anew:
                self._done, self._position = 0, Position()
            known = page.remaining is not None or not page.resume
            self._total = self._done + len(page.items) + (page.remaining or 0) if known else None
            await self._rewrite(page.items)
            if not page.resume:
                return
            resume = page.resume
            if not self._tally.refused:
                self._position = Position(resume, self._done)
            if clock() - self._kept_at >= KEEP_EVERY:
                await self._keep()

    async def _rewrite(self, items: list[Found]) -> None:
        """All objects of a page, several at a time."""
        left = iter(items)
        try:
            async with asyncio.TaskGroup() as workers:
                for number in range(min(self._options.concurrency, len(items))):
                    workers.create_task(self._work(left), name=f"rewrite-{number}")
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _work(self, left: Iterator[Found]) -> None:
        for found in left:
            await self._bucket.acquire()
            try:
                self._tally.count(await self._rewriter.rewrite(found))
                self._failing = 0
            except Refused as refused:
                self._refused(found, refused)
            self._done += 1
            self._report.advanced(self._done, self._total)

    def _refused(self, found: Found, refused: Refused) -> None:
        self._tally.refused += 1
        self._report.refused(found.key, str(refused))
        self._failing = self._failing + 1 if refused.failing else 0
        if self._failing >= FAILING:
            raise MigrationFailed(f"the server fails at one object after the other: {refused}")

    async def _keep(self, *, patient: bool = True) -> None:
        """Write the position down, unless it is."""
        if self._position == self._kept or self._options.dry_run:
            return
        position = self._position
        await self._definitions.keep(self._definition, position, patient=patient)
        self._kept, self._kept_at = position, asyncio.get_running_loop().time()
