"""Requests about the objects of a kind: list all names by pages, and rewrite one object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec
import orjson

from manager.api import ObjectKey
from manager.kube.decoding import Decoder, Listing
from manager.kube.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Gone,
    NotFound,
    ServerError,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
)
from manager_tools.migration.definitions import StoredDefinition
from manager_tools.migration.retry import RetryingClient

_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
"""The media type for metadata alone, of an object or of a `List`."""
_DEADLINE = 60.0
"""Time limit for a page, in seconds: a conversion webhook may take half of it."""
# What is about the server or about us, and would be no different for the next object.
_NOT_ABOUT_THE_OBJECT = TooManyRequests, ServiceUnavailable, ServerTimeout, Unauthorized

Rewritten = Literal["rewritten", "no_need", "gone"]
"""What became of an object: written, by the server for us or by somebody else; stored in the right version
before; or deleted meanwhile."""


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
