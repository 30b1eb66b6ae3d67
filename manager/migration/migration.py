"""The migration of one kind."""

from __future__ import annotations

import asyncio
import enum
from contextlib import suppress

from manager.kube.errors import KubeError, NotFound
from manager.kube.transport import Transport
from manager.migration.definitions import (
    DefinitionChanged,
    Definitions,
    MigrationFailed,
    Position,
    StoredDefinition,
)
from manager.migration.listing import Listing
from manager.migration.patience import Patience
from manager.migration.permission import missing_rights
from manager.migration.rewriter import Rewriter
from manager.migration.walk import MigrationOptions, Report, Tally, Walk

PASSES = 3
"""How often the objects are gone through when the definition changes again and again."""


class Outcome(enum.Enum):
    """How a migration ended."""

    NOTHING_TO_DO = enum.auto()
    """All objects were stored in the storage version already."""
    DONE = enum.auto()
    """They are now (or, in a dry run, would be)."""
    REFUSED = enum.auto()
    """All are but those that were refused; the stored versions have not been trimmed."""


class Migration:
    """Brings all objects of a kind into the storage version of its definition.

    May be cancelled, or killed, at any time: what has been rewritten is, and the next one goes on where this
    was, or a little before. Several at once do the same work twice and no harm.

    Attributes: `tally` has what became of the objects so far.
    """

    def __init__(
        self,
        transport: Transport,
        definitions: Definitions,
        patience: Patience,
        *,
        options: MigrationOptions,
        report: Report,
    ) -> None:
        self._transport = transport
        self._definitions = definitions
        self._patience = patience
        self._options = options
        self._report = report
        self.tally = Tally()

    async def run(self, definition: StoredDefinition) -> Outcome:
        """Migrate the kind of `definition`.

        Raises:
            MigrationFailed: it cannot be done, or not now.
            KubeError: the server did not do its part.
        """
        if definition.uniform:
            if definition.position is not None and not self._options.dry_run:
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
            self._report.begins_anew()
        raise MigrationFailed("the definition changes all the time; run this again when it does not any more")

    async def _again(self, before: StoredDefinition) -> StoredDefinition:
        """The definition as it is now; raises MigrationFailed when it is gone."""
        with suppress(NotFound):
            definition = await self._definitions.get(before.name)
            if definition.uid == before.uid:
                return definition
        raise MigrationFailed("the definition has been deleted meanwhile, and its objects with it")

    async def _pass(self, definition: StoredDefinition) -> Outcome:
        """Go through all objects once; raises DefinitionChanged."""
        dry_run = self._options.dry_run
        if missing := await missing_rights(self._transport, self._patience, definition, dry_run=dry_run):
            raise MigrationFailed(f"the right is missing to {' and to '.join(missing)}")
        position = None if dry_run else Position.kept_at(definition)
        if position is None:
            position = Position()
            if not dry_run:
                self._report.settling(self._options.settle)
                await asyncio.sleep(self._options.settle)
        self.tally = Tally()
        self._report.begins(definition, after=position.done)
        await self._walk(definition, position).run()
        if self.tally.refused:
            return Outcome.REFUSED
        if not dry_run:
            await self._trim(definition)
        return Outcome.DONE

    def _walk(self, definition: StoredDefinition, position: Position) -> Walk:
        options = self._options
        return Walk(
            definition,
            position,
            definitions=self._definitions,
            listing=Listing(self._transport, self._patience, definition, page_size=options.page_size),
            rewriter=Rewriter(
                self._transport,
                self._patience,
                definition,
                field_manager=self._definitions.field_manager,
                dry_run=options.dry_run,
            ),
            options=options,
            report=self._report,
            tally=self.tally,
        )

    async def _trim(self, definition: StoredDefinition) -> None:
        try:
            await self._definitions.trim(definition)
        except NotFound as error:
            raise DefinitionChanged from error
        await self._clear(definition)

    async def _clear(self, definition: StoredDefinition) -> None:
        """Remove the position. It says nothing any more, so that it is no failure if it stays."""
        with suppress(KubeError):
            await self._definitions.clear(definition)
