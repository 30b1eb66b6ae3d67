"""What the server's answers say: pages of a list, bookmarks of a watch, what became of an object."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from manager.cache.record import Meta
from manager.kube.decoding import Decoder, not_a
from manager.kube.errors import ProtocolError

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


class _Details(msgspec.Struct):
    uid: str = ""


class _Status(msgspec.Struct):
    kind: str = ""
    details: _Details | None = None


class _Spec(msgspec.Struct):
    finalizers: msgspec.Raw = msgspec.Raw()


class _Object(msgspec.Struct):
    spec: _Spec


_decode_status = Decoder(_Status, "the answer to a delete")
_decode_object = Decoder(_Object, "an object with a spec")


def is_removed(raw: bytes, meta: Meta) -> bool:
    """True when an object was being deleted and this write took away the last thing that kept it.

    The server then removes it in the same step, and its answer is the object's last state.
    """
    if meta.deletion_timestamp is None or meta.finalizers or meta.deletion_grace_period_seconds:
        return False
    try:
        # Namespaces keep finalizers of their own there.
        finalizers = bytes(_decode_object(raw).spec.finalizers)
    except ProtocolError:
        return True  # no spec, or one of another shape
    return finalizers in {b"", b"[]", b"null"}


def deleted_uid(raw: bytes) -> str | None:
    """The UID in an answer to a delete that is a Status, which means that the object is gone.

    Empty when the Status does not name it; None when the answer is an object. Raises ProtocolError.
    """
    status = _decode_status(raw)
    if status.kind != "Status":
        return None
    return status.details.uid if status.details else ""
