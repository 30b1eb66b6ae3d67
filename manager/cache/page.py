"""Pages of a list, and bookmarks of a watch."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from manager.kube.decoding import Decoder, not_a

__all__ = ["Bookmark", "Page", "decode_bookmark", "decode_page"]

# Marks the bookmark after which a streaming list has given all there was.
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Page(NamedTuple):
    """One answer to a list: objects, undecoded, as of a version.

    `resume` is what to ask the next page with; empty on the last one.
    """

    version: int
    resume: str
    items: list[msgspec.Raw]


class Bookmark(NamedTuple):
    """The version up to which a watch has told everything.

    `ends_list` marks the end of the present content, which a streaming list sends first.
    """

    version: int
    ends_list: bool


class _Metadata(msgspec.Struct, rename={"resource_version": "resourceVersion", "resume": "continue"}):
    resource_version: str
    resume: str = ""
    annotations: dict[str, str] = {}


class _Page(msgspec.Struct):
    metadata: _Metadata
    items: list[msgspec.Raw] | None


class _Bookmark(msgspec.Struct):
    metadata: _Metadata


_decode_page = Decoder(_Page, "a list")
_decode_bookmark = Decoder(_Bookmark, "a bookmark")


def decode_page(raw: bytes) -> Page:
    """Decode one answer to a list; raises ProtocolError."""
    page = _decode_page(raw)
    return Page(_version(page.metadata, "a list"), page.metadata.resume, page.items or [])


def decode_bookmark(raw: msgspec.Raw) -> Bookmark:
    """Decode the object of a BOOKMARK event; raises ProtocolError."""
    metadata = _decode_bookmark(raw).metadata
    return Bookmark(_version(metadata, "a bookmark"), metadata.annotations.get(INITIAL_EVENTS_END) == "true")


def _version(metadata: _Metadata, what: str) -> int:
    try:
        return int(metadata.resource_version)
    except ValueError as error:
        raise not_a(what, error) from None
