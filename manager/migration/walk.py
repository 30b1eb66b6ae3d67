"""Going through all objects of a kind once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from manager.kube.errors import KubeError
from manager.migration.definition import Definition
from manager.migration.definitions import Definitions
from manager.migration.errors import DefinitionChanged, MigrationFailed, Refused
from manager.migration.listing import Found, Listing
from manager.migration.options import MigrationOptions
from manager.migration.position import Position
from manager.migration.report import Report
from manager.migration.rewriter import Rewriter
from manager.migration.tally import Tally
from manager.rate_limit import TokenBucket

__all__ = ["FAILING", "KEEP_EVERY", "Walk"]

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
        definition: Definition,
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
