"""The migration of one kind: all names are listed by pages, and each object is rewritten."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import orjson

from manager.api import ObjectKey
from manager.kube.decoding import Decoder, Listing
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
        dry_run = self.options.dry_run
        if missing := await missing_rights(self._client, definition, dry_run=dry_run):
            raise MigrationFailed(f"the right is missing to {' and to '.join(missing)}")
        position = None if dry_run else Position.saved_in(definition)
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
        if self._position == self._kept or self._options.dry_run:
            return
        position = self._position
        await self._definitions.keep(self._definition, position, retries=retries)
        self._kept, self._kept_at = position, asyncio.get_running_loop().time()


class Refused(Exception):
    """The server does not let one object be written as it is; the text is its reason.

    `failing` tells that it did not refuse the object so much as fail itself: a webhook that does not answer.
    """

    def __init__(self, reason: str, *, failing: bool) -> None:
        super().__init__(reason)
        self.failing = failing


class Found(NamedTuple):
    """An object, its resourceVersion and its uid."""

    key: ObjectKey
    version: str
    uid: str


@dataclass(frozen=True, slots=True)
class Page:
    """Some objects, in the server's order.

    `resume` is what the next page is asked for with, "" on the last. `remaining` is how many come after it,
    None if the server does not tell. `anew` says that this is the first page though another was asked for.
    """

    items: list[Found]
    resume: str
    remaining: int | None
    anew: bool


class Objects:
    """All objects of a kind.

    To have one written anew is to apply, on the server's side, a configuration that says nothing of it.
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

    def __init__(
        self,
        client: RetryingClient,
        definition: StoredDefinition,
        *,
        page_size: int,
        field_manager: str,
        dry_run: bool,
    ) -> None:
        self._client = client
        self._definition = definition
        self._limit = str(page_size)
        self._listing = Listing(
            client.request,
            definition.collection(),
            accept=_METADATA.format("List"),
            deadline=_DEADLINE,
        )
        self._type = {"apiVersion": f"{definition.group}/{definition.version}", "kind": definition.kind}
        self._query = {"fieldManager": field_manager, **({"dryRun": "All"} if dry_run else {})}

    async def page(self, resume: str) -> Page:
        """Return the page at the continue token `resume`, "" for the first page.

        A token expires after some minutes; then the server gives another one for the same place in the
        current state. Objects created meanwhile need no migration, as they are stored in the new version.
        If the server gives no new token, or does not know the old one, the list starts anew.
        """
        try:
            return await self._ask(resume)
        except Gone as error:
            if not error.resume or error.resume == resume:
                return await self._ask("", anew=True)
            again = error.resume
        except BadRequest:
            if not resume:
                raise
            return await self._ask("", anew=True)
        return await self.page(again)

    async def _ask(self, resume: str, *, anew: bool = False) -> Page:
        page = await self._listing.page({"limit": self._limit}, resume)
        return Page([_found(each) for each in page.items], page.resume, page.remaining, anew)

    async def _now(self, key: ObjectKey) -> Found | None:
        # By a list, for which there is the right.
        path = self._definition.collection(key.namespace)
        listing = Listing(self._client.request, path, accept=_METADATA.format("List"))
        page = await listing.page({"limit": self._limit, "fieldSelector": f"metadata.name={key.name}"})
        return next((each for each in map(_found, page.items) if each.key.name == key.name), None)

    async def rewrite(self, found: Found) -> Rewritten:
        """Rewrite it; raises Refused if this object cannot be written, and KubeError if none can."""
        # With a uid, nothing is made where the object has gone, and another one of its name is left alone.
        metadata = {"name": found.key.name, "uid": found.uid}
        try:
            answer = await self._client.request(
                "PATCH",
                self._definition.path(found.key),
                query=self._query,
                body=orjson.dumps({**self._type, "metadata": metadata}),
                content_type="application/apply-patch+yaml",
                accept=_METADATA.format(""),
            )
        except (NotFound, Conflict) as error:
            # The object may be gone, recreated under its name, or changed by other clients again and again.
            # But a server that does not know the path yet also answers Not Found, and a webhook Conflict.
            now = await self._now(found.key)
            if now is None:
                return "gone"
            if (now.version, now.uid) == (found.version, found.uid):
                raise Refused(" ".join(str(error).split()), failing=isinstance(error, NotFound)) from error
            return "rewritten"
        except _NOT_ABOUT_THE_OBJECT:
            raise
        except ApiError as error:
            text = " ".join(str(error).split())
            raise Refused(text, failing=isinstance(error, ServerError)) from error
        unchanged = _decode_object(answer).metadata.resource_version == found.version
        return "no_need" if unchanged else "rewritten"


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Object(msgspec.Struct):
    metadata: _Metadata


class _ListedMetadata(_Metadata, rename="camel"):
    name: str
    uid: str
    namespace: str = ""


class _Listed(msgspec.Struct):
    metadata: _ListedMetadata


_decode_object = Decoder(_Object, "the metadata of an object")
_decode_listed = Decoder(_Listed, "the metadata of an object")


def _found(raw: msgspec.Raw) -> Found:
    listed = _decode_listed(raw).metadata
    return Found(ObjectKey(listed.namespace, listed.name), listed.resource_version, listed.uid)
