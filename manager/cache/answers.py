"""What the server's answers say: bookmarks of a watch, what became of an object."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from manager.cache.record import Meta
from manager.kube.decoding import Decoder, not_a
from manager.kube.errors import ProtocolError

# Marks the bookmark after which a streaming list has given all there was.
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Bookmark(NamedTuple):
    """The version up to which a watch has told everything.

    `ends_list` marks the end of the present content, which a streaming list sends first.
    """

    version: int
    ends_list: bool


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str
    annotations: dict[str, str] = {}


class _Bookmark(msgspec.Struct):
    metadata: _Metadata


_decode_bookmark = Decoder(_Bookmark, "a bookmark")


def decode_bookmark(raw: msgspec.Raw) -> Bookmark:
    """Decode the object of a BOOKMARK event; raises ProtocolError."""
    metadata = _decode_bookmark(raw).metadata
    return Bookmark(
        version_of(metadata.resource_version, "a bookmark"),
        metadata.annotations.get(INITIAL_EVENTS_END) == "true",
    )


def version_of(text: str, what: str) -> int:
    """The number that a resourceVersion is; raises ProtocolError, in which `what` has it."""
    try:
        return int(text)
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
