"""The migration of one kind: all names are listed by pages, and each object is rewritten."""

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
"""How many passes are made at most when the definition keeps changing."""

KEEP_EVERY = 10.0
"""Seconds between two stored positions: so much work is repeated after a crash."""

FAILING = 20
"""The migration is given up after so many server failures in a row."""

_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
"""The media type for metadata alone, of an object or of a `List`."""
_DEADLINE = 60.0
"""Time limit for a page, in seconds: a conversion webhook may take half of it."""
# What is about the server or about us, and would be no different for the next object.
_NOT_ABOUT_THE_OBJECT = TooManyRequests, ServiceUnavailable, ServerTimeout, Unauthorized


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
        self.client = client
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
        """Remove the position. Failing to do so does no harm."""
        with suppress(KubeError):
            await self.definitions.clear(definition)


class Refused(Exception):
    """The server does not let one object be written as it is; the text is its reason.

    `failing` tells that it did not refuse the object so much as fail itself: a webhook that does not answer.
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
    """Pass that rewrites every object from a position on, and saves the position in the definition.

    The position never passes an object that was refused, so that the next run comes to it again.

    To have an object written anew is to apply, on the server's side, a configuration that says nothing of it.
    The server reads the object, patches it, and compares what it would store with the stored bytes. These
    differ where they are of another version, so that it writes; else it does not, and the object keeps its
    resourceVersion. It reads and writes in one step: whatever others write meanwhile is kept. No field
    changes its manager, and neither the generation nor any content changes; who applies nothing owns nothing.

    It is not a merge patch, though that would change nothing either: where a server cannot convert an object
    to the version of one of its field managers, as while a webhook is down, it lets the patch pass and
    forgets who manages what. An apply it refuses.

    The patch goes to the status where that is apart. The server stores the whole object all the same, but
    asks no admission webhook of the object itself: for a user's changes, these may have rules that old
    objects do not keep, and each would cost a call. The schema is checked in either case.
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
        """Return the page at a continue token, "" for the first one, and whether the list begins anew.

        A token expires after some minutes; then the server gives another one for the same place in the
        current state. Objects created meanwhile need no migration, as they are stored in the new version.
        If the server gives no new token, or does not know the old one, the list starts anew.
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
        """Rewrite it; raises Refused if this object cannot be written, and KubeError if none can."""
        definition, query = self._definition, {"fieldManager": self._definitions.field_manager}
        body = {
            "apiVersion": f"{definition.group}/{definition.version}",
            "kind": definition.kind,
            # With a uid, nothing is made where the object has gone, or another one has its name.
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
            # The object may be gone, recreated under its name, or changed by other clients again and again.
            # But a server that does not know the path yet also answers Not Found, and a webhook Conflict.
            # By a list, for which there is the right.
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
