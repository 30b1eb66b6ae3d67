"""What the cache leaves out of metadata: who else set which field, half of many objects; and annotations."""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

__all__ = ["OwnManagedFields", "without_annotations"]

KEY = b'"managedFields"'
KEY_AND_COLON = re.compile(KEY + rb"\s*:\s*")

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_entries = msgspec.json.Decoder(list[msgspec.Raw]).decode


class OwnManagedFields:
    """Cuts out of objects what `managedFields` says of others.

    Our own are the managers whose names begin with `field_manager`; their entries stay as they are.
    """

    def __init__(self, field_manager: str) -> None:
        self._field_manager = field_manager.encode()
        # The text stands nowhere else in an entry: quotes within its strings are escaped.
        self._is_own = re.compile(rb'"manager"\s*:\s*"' + re.escape(self._field_manager)).search

    def strip(self, raw: bytes, value: bytes) -> bytes:
        """Return the object's JSON without others' entries, given the JSON of its `metadata.managedFields`.

        `value` is empty when there is none; without anything to cut, the answer is `raw` itself.
        """
        if not value:
            return raw
        own = self._own_entries(value)
        if own == value:
            return raw  # as of an object that nobody else has written to yet
        key = KEY_AND_COLON.search(raw)
        if key is None or raw.count(KEY) != 1:
            # The object has a field of that name somewhere else too, or it is written in another way.
            return _rebuild(raw, "managedFields", own)
        before, after = raw[: key.start()], raw[key.end() + len(value) :]
        if own:
            return b"".join((before, key[0], own, after))
        if before.endswith(b","):
            return before[:-1] + after
        return before + after.removeprefix(b",")

    def _own_entries(self, value: bytes) -> bytes:
        """The JSON of our own entries, empty when there are none."""
        if self._field_manager not in value:
            return b""
        own = [entry for entry in map(bytes, _decode_entries(value)) if self._is_own(entry)]
        return b"[%b]" % b",".join(own) if own else b""


def without_annotations(raw: bytes, names: Collection[str]) -> bytes:
    """Return the object's JSON without these annotations, which it has."""
    metadata = _decode_object(_decode_object(raw)["metadata"])
    annotations = _decode_object(metadata["annotations"])
    kept = {name: value for name, value in annotations.items() if name not in names}
    return _rebuild(raw, "annotations", _join(kept) if kept else b"")


def _rebuild(raw: bytes, name: str, value: bytes) -> bytes:
    """Put another value into the metadata; without a value, take the name out."""
    members = _decode_object(raw)
    metadata = _decode_object(members["metadata"])
    if value:
        metadata[name] = msgspec.Raw(value)
    else:
        del metadata[name]
    members["metadata"] = msgspec.Raw(_join(metadata))
    return _join(members)


def _join(members: dict[str, msgspec.Raw]) -> bytes:
    # Joined and not encoded as a whole: an encoder's buffer is larger than what it holds.
    return b"{%b}" % b",".join(
        b"%b:%b" % (msgspec.json.encode(name), value) for name, value in members.items()
    )
