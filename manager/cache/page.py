"""Pages of a list, and bookmarks of a watch."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from manager.kube.errors import ProtocolError

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


_decode_page = msgspec.json.Decoder(_Page).decode
_decode_bookmark = msgspec.json.Decoder(_Bookmark).decode


def decode_page(raw: bytes) -> Page:
    """Decode one answer to a list; raises ProtocolError."""
    try:
        page = _decode_page(raw)
        return Page(int(page.metadata.resource_version), page.metadata.resume, page.items or [])
    except (msgspec.DecodeError, ValueError) as error:
        raise ProtocolError(f"not a list: {error}: {raw[:200]!r}") from error


def decode_bookmark(raw: msgspec.Raw) -> Bookmark:
    """Decode the object of a BOOKMARK event; raises ProtocolError."""
    try:
        metadata = _decode_bookmark(raw).metadata
        ends_list = metadata.annotations.get(INITIAL_EVENTS_END) == "true"
        return Bookmark(int(metadata.resource_version), ends_list)
    except (msgspec.DecodeError, ValueError) as error:
        raise ProtocolError(f"not a bookmark: {error}: {bytes(raw)[:200]!r}") from error
