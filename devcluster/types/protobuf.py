"""Bodies in `application/vnd.kubernetes.protobuf`: an envelope that names the kind, and the object in it."""

from __future__ import annotations

from typing import Any

from devcluster.errors import bad_request
from devcluster.types import table, wire
from devcluster.types.codecs import DecodeError
from devcluster.types.decode import cannot_be_handled, convert
from devcluster.types.messages import decode_message
from devcluster.types.wire import BrokenMessage

__all__ = ["MAGIC", "decode_envelope", "decode_protobuf", "excerpt"]

MAGIC = b"k8s\x00"
_SHOWN = 30


def decode_protobuf(body: bytes, default: tuple[str, str, str] | None = None) -> dict[str, Any]:
    """The object in a body, as `decode_strict` would have it.

    `default` is the (group, version, kind) that the path is about, and of a body that does not say its own.

    Raises:
        StatusError: 400, the body is broken, or of a kind that is not built in.
    """
    try:
        gvk, raw = _envelope(body, default or ("", "", ""))
    except BrokenMessage as error:
        wanted = f" (must be of type {default[2]})" if default else ""
        raise bad_request(f"the object provided is unrecognized{wanted}: {error} ({excerpt(body)})") from None
    try:
        return _object(gvk, raw)
    except (BrokenMessage, RecursionError) as error:
        why = str(error) if isinstance(error, BrokenMessage) else "proto: nested too deeply"
        raise cannot_be_handled(gvk, why, expected=default[2] if default else "") from None


def decode_envelope(body: bytes) -> dict[str, Any]:
    """The same for an object within another one.

    Raises:
        BrokenMessage: it is none.
    """
    return _object(*_envelope(body, ("", "", "")))


def excerpt(body: bytes) -> str:
    """The start of a body, as the server shows one that it cannot make out."""
    if not body:
        return "<empty>"
    more = " ..." if len(body) > _SHOWN else ""
    if body.lstrip().startswith(b"{"):
        return body[:_SHOWN].decode("utf-8", "replace") + more
    return body[:_SHOWN].hex() + more


def _envelope(body: bytes, default: tuple[str, str, str]) -> tuple[tuple[str, str, str], bytes]:
    """Group, version and kind, and the bytes of a runtime.Unknown."""
    if not body.startswith(MAGIC):
        prefix = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        raise BrokenMessage(prefix if body else "empty data")
    if body == MAGIC:
        raise BrokenMessage("empty body")
    api_version = kind = ""
    raw = b""
    for field in wire.fields(body[len(MAGIC) :]):
        match field[0]:
            case 1:
                for part in wire.fields(wire.submessage(field, "typeMeta")):
                    if part[0] == 1:
                        api_version = wire.text(part, "apiVersion")
                    else:
                        kind = wire.text(part, "kind")
            case 2:
                raw = wire.submessage(field, "raw")
    group, _, version = api_version.rpartition("/") if api_version else (default[0], "", default[1])
    return (group, version, kind or default[2]), raw


def _object(gvk: tuple[str, str, str], raw: bytes) -> dict[str, Any]:
    group, version, kind = gvk
    api_version = f"{group}/{version}" if group else version
    name = table.name_of(group, version, kind)
    if name is None:
        known = f'no kind "{kind}" is registered for version "{api_version}"'
        raise BrokenMessage(f'{known} in scheme "pkg/runtime/scheme.go:111"')
    try:
        decoded, _ = convert({"kind": kind, "apiVersion": api_version, **decode_message(name, raw)}, name)
    except DecodeError as error:
        raise BrokenMessage(str(error)) from None
    return decoded
