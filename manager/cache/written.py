"""What the server's answer to a write says about the object's fate."""

from __future__ import annotations

import msgspec

from manager.cache.meta import Meta
from manager.kube.decoding import Decoder
from manager.kube.errors import ProtocolError

__all__ = ["deleted_uid", "is_removed"]


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
