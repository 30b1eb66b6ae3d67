"""The migration of one kind: it lists the names of all objects by pages, and rewrites each object."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import orjson

from manager.api import ObjectKey
from manager.kube.decoding import Decoder, Listing, Page
from manager.kube.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Gone,
    KubeError,
    NotFound,
    ServerError,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
)
from manager.util.rate_limit import TokenBucket
from manager_tools.migration.definitions import (
    DefinitionChanged,
    Definitions,
    MigrationFailed,
    Position,
    RetryingClient,
    StoredDefinition,
    missing_rights,
)
from manager_tools.migration.report import MigrationOptions, Outcome, Report, Rewritten, Tally

PASSES = 3
"""The maximum number of passes if the CRD keeps changing."""

KEEP_EVERY = 10.0
"""The minimum seconds between two stored positions; a position is stored only at the end of a page."""

FAILING = 20
"""The number of successive server failures after which the migration gives up."""

_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
"""The media type for the metadata of an object or of a `List`."""
_DEADLINE = 60.0
"""Seconds for a page, half of which a conversion webhook may take."""
# Errors of the server or of this client, which would be the same for the next object.
_NOT_ABOUT_THE_OBJECT = TooManyRequests, ServiceUnavailable, ServerTimeout, Unauthorized


class Migration:
    """The migration of all objects of a kind to the storage version of its CRD.

    A migration may be cancelled or killed at any time. Rewritten objects stay rewritten, and the next
    migration continues at the same position or shortly before. Concurrent migrations repeat the same work,
    but do no harm.

    Attributes: `tally` counts the results so far.
    """

    def __init__(
        self, definitions: Definitions, client: RetryingClient, *, options: MigrationOptions, report: Report
    ) -> None:
        self.definitions = definitions
        self.client = client
        self.options = options
        self.report = report
        self.tally = Tally()

    async def run(self, definition: StoredDefinition) -> Outcome:
        """Migrate the kind of `definition`.

        Raises MigrationFailed if the migration is impossible now, and KubeError if a request failed.
        """
        if definition.uniform:
            if definition.position is not None and not self.options.dry_run:
                await self._clear(definition)
            return Outcome.NOTHING_TO_DO
        storage = definition.storage
        for _ in range(PASSES):
            if not definition.served:
                raise MigrationFailed("no version is served, so its objects cannot be read")
            try:
                return await self._pass(definition)
            except DefinitionChanged:
                definition = await self._again(definition)
            if definition.storage != storage:
                raise MigrationFailed(
                    f"the storage version has been changed from {storage} to {definition.storage} meanwhile"
                )
            self.report.begins_anew()
        raise MigrationFailed("the definition keeps changing; try again later")

    async def _again(self, before: StoredDefinition) -> StoredDefinition:
        with suppress(NotFound):
            definition = await self.definitions.get(before.name)
            if definition.uid == before.uid:
                return definition
        raise MigrationFailed("the definition has been deleted meanwhile, and its objects with it")

    async def _pass(self, definition: StoredDefinition) -> Outcome:
        dry_run = self.options.dry_run
        if missing := await missing_rights(self.client, definition, dry_run=dry_run):
            raise MigrationFailed(f"the right is missing to {' and to '.join(missing)}")
        position = None if dry_run else Position.saved_in(definition)
        if position is None:
            position = Position.start(definition)
            if not dry_run:
                self.report.settling(self.options.settle)
                await asyncio.sleep(self.options.settle)
        self.tally = Tally()
        self.report.begins(definition, after=position.done)
        await _Pass(self, definition, position).run()
        if self.tally.refused:
            return Outcome.REFUSED
        if not dry_run:
            try:
                await self.definitions.trim(definition)
            except NotFound as error:
                raise DefinitionChanged from error
            await self._clear(definition)
        return Outcome.DONE

    async def _clear(self, definition: StoredDefinition) -> None:
        with suppress(KubeError):
            await self.definitions.clear(definition)


class Refused(Exception):
    """An error: the API server refuses to write an object unchanged; the text is the server's reason.

    `failing` means that the server itself failed, for example because a webhook did not respond.
    """

    def __init__(self, error: ApiError, *, failing: bool) -> None:
        super().__init__(" ".join(str(error).split()))
        self.failing = failing


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str
    name: str
    uid: str
    namespace: str = ""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)


class _Found(msgspec.Struct):
    metadata: _Metadata


_decode = Decoder(_Found, "the metadata of an object")


class _Pass:
    """A pass that rewrites all objects from a position on, and stores the position in the CRD.

    The position stays before the first refused object, so that the next run tries that object again.

    The pass rewrites an object by a server-side apply of an empty configuration. The API server compares the
    new bytes with the stored bytes. They differ if the object is stored in another version; then the API
    server writes the object. Otherwise the object keeps its resourceVersion. The API server reads and writes
    in one step, so concurrent writes are kept. Content, generation and field managers stay the same, because
    an empty apply owns no fields.

    A merge patch would be unsafe. While a webhook is down, the API server may be unable to convert an object
    to the version of a field manager. It then accepts a merge patch and drops managedFields, but refuses an
    apply.

    If the kind has a status subresource, the pass patches the status. The API server then stores the whole
    object, too. It does not call the main resource's admission webhooks, which might refuse old objects and
    cost one call each. The schema is checked in both cases.
    """

    def __init__(self, migration: Migration, definition: StoredDefinition, position: Position) -> None:
        self._client, self._definitions = migration.client, migration.definitions
        self._options, self._report, self._tally = migration.options, migration.report, migration.tally
        self._definition = definition
        self._listing, self._limit = self._list(), {"limit": str(self._options.page_size)}
        self._position = self._kept = position
        self._kept_at = asyncio.get_running_loop().time()
        self._bucket = TokenBucket(rate=self._options.rate, burst=self._options.concurrency)
        self._done = position.done
        self._total: int | None = None
        self._failing = 0

    async def run(self) -> None:
        """Rewrite all objects up to the end of the list, even if some are refused.

        Raises:
            DefinitionChanged: the pass has to start again.
            MigrationFailed: the server fails at `FAILING` objects in succession.
            KubeError: a request failed.
        """
        try:
            await self._pages()
        except DefinitionChanged:
            raise
        except BaseException:
            # After an interruption or a server failure, try once to store the position, which saves the next
            # run work.
            with suppress(KubeError, DefinitionChanged):
                await self._keep(retries=False)
            raise
        if self._tally.refused:
            await self._keep()

    async def _pages(self) -> None:
        resume = self._position.resume
        clock = asyncio.get_running_loop().time
        while True:
            page, begins_anew = await self._page(resume)
            if begins_anew:
                self._done, self._position = 0, Position.start(self._definition)
            known = page.remaining is not None or not page.resume
            self._total = self._done + len(page.items) + (page.remaining or 0) if known else None
            left = (_decode(each).metadata for each in page.items)
            try:
                async with asyncio.TaskGroup() as workers:
                    for number in range(min(self._options.concurrency, len(page.items))):
                        workers.create_task(self._work(left), name=f"rewrite-{number}")
            except BaseExceptionGroup as group:
                raise group.exceptions[0] from None
            if not page.resume:
                return
            resume = page.resume
            if not self._tally.refused:
                self._position = msgspec.structs.replace(self._position, resume=resume, done=self._done)
            if clock() - self._kept_at >= KEEP_EVERY:
                await self._keep()

    async def _page(self, resume: str) -> tuple[Page, bool]:
        """Return the page at a continue token ("" for the first page), and whether the list starts again.

        A token expires after some minutes; then the API server returns a new token for the same position in
        the current state. Objects created in the meantime are stored in the new version, and need no
        migration. If the API server returns no new token, or does not accept the old one, the list starts
        again.
        """
        try:
            return await self._listing.page(self._limit, resume), False
        except Gone as error:
            if error.resume and error.resume != resume:
                return await self._page(error.resume)
        except BadRequest:
            if not resume:
                raise
        return await self._listing.page(self._limit), True

    def _list(self, namespace: str = "") -> Listing:
        path, accept = self._definition.collection(namespace), _METADATA.format("List")
        return Listing(self._client.request, path, accept=accept, deadline=_DEADLINE)

    async def _work(self, left: Iterator[_Metadata]) -> None:
        for found in left:
            await self._bucket.acquire()
            try:
                self._tally.count(await self._rewrite(found))
                self._failing = 0
            except Refused as refused:
                self._tally.refused += 1
                self._report.refused(found.key, str(refused))
                self._failing = self._failing + 1 if refused.failing else 0
                if self._failing >= FAILING:
                    said = f"the server fails for one object after the other: {refused}"
                    raise MigrationFailed(said) from None
            self._done += 1
            self._report.advanced(self._done, self._total)

    async def _keep(self, *, retries: bool = True) -> None:
        if self._position == self._kept or self._options.dry_run:
            return
        position = self._position
        await self._definitions.keep(self._definition, position, retries=retries)
        self._kept, self._kept_at = position, asyncio.get_running_loop().time()

    async def _rewrite(self, found: _Metadata) -> Rewritten:
        """Rewrite an object.

        Raise Refused for a problem of this object, and KubeError for a problem of all objects.
        """
        definition, query = self._definition, {"fieldManager": self._definitions.field_manager}
        body = {
            "apiVersion": f"{definition.group}/{definition.version}",
            "kind": definition.kind,
            # With a UID, the apply creates no object if the object is gone or another object has its name.
            "metadata": {"name": found.name, "uid": found.uid},
        }
        try:
            answer = await self._client.request(
                "PATCH",
                definition.path(found.key),
                query={**query, "dryRun": "All"} if self._options.dry_run else query,
                body=orjson.dumps(body),
                content_type="application/apply-patch+yaml",
                accept=_METADATA.format(""),
            )
        except (NotFound, Conflict) as error:
            # The object may be gone, replaced, or changed repeatedly by other clients. But Not Found may also
            # mean that the API server does not serve the path yet, and Conflict may come from a webhook. So
            # look the object up by a list, which the rights allow.
            named = {**self._limit, "fieldSelector": f"metadata.name={found.name}"}
            page = await self._list(found.namespace).page(named)
            listed = (_decode(each).metadata for each in page.items)
            now = next((each for each in listed if each.name == found.name), None)
            if now is None:
                return "gone"
            if (now.resource_version, now.uid) == (found.resource_version, found.uid):
                raise Refused(error, failing=isinstance(error, NotFound)) from error
            return "rewritten"
        except _NOT_ABOUT_THE_OBJECT:
            raise
        except ApiError as error:
            raise Refused(error, failing=isinstance(error, ServerError)) from error
        unchanged = _decode(answer).metadata.resource_version == found.resource_version
        return "no_need" if unchanged else "rewritten"
