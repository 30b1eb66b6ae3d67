"""All objects of a kind by name, in pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from manager.api import ObjectKey
from manager.kube.decoding import Decoder, Pages
from manager.kube.errors import BadRequest, Gone, ProtocolError
from manager.kube.transport import LONGEST_LIST, Transport
from manager.migration.definitions import StoredDefinition
from manager.migration.patience import Patience

_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_DEADLINE = 60.0
"""Seconds for a page: a conversion webhook may take half of them."""


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


class Listing:
    """Pages of the metadata of all objects of a kind."""

    def __init__(
        self, transport: Transport, patience: Patience, definition: StoredDefinition, *, page_size: int
    ) -> None:
        self._transport = transport
        self._patience = patience
        self._path = definition.collection()
        self._limit = str(page_size)
        self._pages = Pages()

    async def page(self, resume: str) -> Page:
        """The page that `resume` leads to, "" for the first one.

        A token is of use for some minutes; then the server gives another one for the same place in what
        there is by then. Objects that came in meanwhile are missed by none, as they are stored in the new
        version from the start. Where it gives none, or does not know the token at all, the list begins anew.
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
        query = {"limit": self._limit}
        if resume:
            query["continue"] = resume

        async def send() -> bytes:
            return await self._transport.request(
                "GET",
                self._path,
                query=query,
                accept=_METADATA_LIST,
                deadline=_DEADLINE,
                longest=LONGEST_LIST,
            )

        raw = await self._patience.insist(send)
        try:
            found = _decode(raw)
            self._pages.turned(resume, found.metadata.resume, empty=not found.items)
        except ProtocolError as error:
            raise ProtocolError(f"GET {self._path}: {error}") from None
        items = [
            Found(
                ObjectKey(each.metadata.namespace, each.metadata.name),
                each.metadata.resource_version,
                each.metadata.uid,
            )
            for each in found.items or ()
        ]
        return Page(items, found.metadata.resume, found.metadata.remaining, anew)


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata


class _ListMetadata(msgspec.Struct, rename={"resume": "continue", "remaining": "remainingItemCount"}):
    resume: str = ""
    remaining: int | None = None


class _List(msgspec.Struct):
    metadata: _ListMetadata
    items: list[_Object] | None = None


_decode = Decoder(_List, "a list")
