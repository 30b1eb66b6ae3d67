"""The migration of one kind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from manager.kube.errors import KubeError, NotFound
from manager.util.rate_limit import TokenBucket
from manager_tools.migration.definitions import (
    DefinitionChanged,
    Definitions,
    MigrationFailed,
    Position,
    StoredDefinition,
)
from manager_tools.migration.objects import Found, Objects, Refused
from manager_tools.migration.permission import missing_rights
from manager_tools.migration.report import MigrationOptions, Outcome, Report, Tally
from manager_tools.migration.retry import RetryingClient

PASSES = 3
"""How many passes are made at most when the definition keeps changing."""

KEEP_EVERY = 10.0
"""Seconds between two stored positions: so much work is repeated after a crash."""

FAILING = 20
"""The migration is given up after so many server failures in a row."""


class Migration:
    """Migration of all objects of a kind to the storage version of its definition.

    It may be cancelled or killed at any time. Rewritten objects stay so, and the next migration continues
    at the same place or a little before. Concurrent migrations repeat the same work, but do no harm.

    Attributes: `tally` counts the results so far.
    """

    def __init__(
        self, definitions: Definitions, client: RetryingClient, *, options: MigrationOptions, report: Report
    ) -> None:
        self.definitions = definitions
        self._client = client
        self.options = options
        self.report = report
        self.tally = Tally()

    async def run(self, definition: StoredDefinition) -> Outcome:
        """Migrate the kind of `definition`.

        Raises:
            MigrationFailed: it cannot be done, or not now.
            KubeError: the server did not do its part.
        """
        if definition.uniform:
            if definition.position is not None and not self.options.dry_run:
                await self._clear(definition)
            return Outcome.NOTHING_TO_DO
        storage = definition.storage
        for _ in range(PASSES):
            if not definition.served:
                raise MigrationFailed("no version is served, so that its objects cannot be reached")
            try:
                return await self._pass(definition)
            except DefinitionChanged:
                definition = await self._again(definition)
            if definition.storage != storage:
                raise MigrationFailed(
                    f"the storage version has been changed from {storage} to {definition.storage} meanwhile"
                )
            self.report.begins_anew()
        raise MigrationFailed("the definition keeps changing; run this again later")

    async def _again(self, before: StoredDefinition) -> StoredDefinition:
        """Read the definition again; raise MigrationFailed if it is gone."""
        with suppress(NotFound):
            definition = await self.definitions.get(before.name)
            if definition.uid == before.uid:
                return definition
        raise MigrationFailed("the definition has been deleted meanwhile, and its objects with it")

    async def _pass(self, definition: StoredDefinition) -> Outcome:
        """Go through all objects once; raises DefinitionChanged."""
        dry_run = self.options.dry_run
        if missing := await missing_rights(self._client, definition, dry_run=dry_run):
            raise MigrationFailed(f"the right is missing to {' and to '.join(missing)}")
        position = None if dry_run else Position.kept_at(definition)
        if position is None:
            position = Position()
            if not dry_run:
                self.report.settling(self.options.settle)
                await asyncio.sleep(self.options.settle)
        self.tally = Tally()
        self.report.begins(definition, after=position.done)
        objects = Objects(
            self._client,
            definition,
            page_size=self.options.page_size,
            field_manager=self.definitions.field_manager,
            dry_run=dry_run,
        )
        await _Walk(self, definition, objects, position).run()
        if self.tally.refused:
            return Outcome.REFUSED
        if not dry_run:
            await self._trim(definition)
        return Outcome.DONE

    async def _trim(self, definition: StoredDefinition) -> None:
        try:
            await self.definitions.trim(definition)
        except NotFound as error:
            raise DefinitionChanged from error
        await self._clear(definition)

    async def _clear(self, definition: StoredDefinition) -> None:
        """Remove the position. Failing to do so does no harm."""
        with suppress(KubeError):
            await self.definitions.clear(definition)


class _Walk:
    """Walk that rewrites every object from a position on, and saves the position in the definition.

    The position never passes an object that was refused, so that the next run comes to it again.
    """

    def __init__(
        self, migration: Migration, definition: StoredDefinition, objects: Objects, position: Position
    ) -> None:
        self._definitions = migration.definitions
        self._options, self._report, self._tally = migration.options, migration.report, migration.tally
        self._definition, self._objects = definition, objects
        self._position = self._kept = position
        self._kept_at = asyncio.get_running_loop().time()
        self._bucket = TokenBucket(rate=self._options.rate, burst=self._options.concurrency)
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
                await self._keep(retries=False)
            raise
        if self._tally.refused:
            await self._keep()

    async def _pages(self) -> None:
        resume = self._position.resume
        clock = asyncio.get_running_loop().time
        while True:
            page = await self._objects.page(resume)
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
        """Rewrite all objects of a page, several at a time."""
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
                self._tally.count(await self._objects.rewrite(found))
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
            raise MigrationFailed(f"the server fails for one object after the other: {refused}")

    async def _keep(self, *, retries: bool = True) -> None:
        """Store the position, unless it is stored already."""
        if self._position == self._kept or self._options.dry_run:
            return
        position = self._position
        await self._definitions.keep(self._definition, position, retries=retries)
        self._kept, self._kept_at = position, asyncio.get_running_loop().time()
