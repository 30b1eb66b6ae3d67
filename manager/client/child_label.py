"""The label of children: it names the slice of the hash range with the hash of their owner's UID."""

from __future__ import annotations

from dataclasses import dataclass

HASH_BITS = 64

LABEL_SLICES = 256
"""The number of slices of the hashes that the label distinguishes, whatever the number of shards."""

_OFFSET = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_MASK = 2**HASH_BITS - 1
_LABEL_BITS = LABEL_SLICES.bit_length() - 1


def hash_of(uid: str) -> int:
    """Return a UID's 64-bit FNV-1a hash, by which the API server's `shardSelector` divides objects."""
    value = _OFFSET
    for byte in uid.encode():
        value = (value ^ byte) * _PRIME & _MASK
    return value


def slice_of_uid(uid: str) -> int:
    """Return the number of the slice with the UID's hash; there are `LABEL_SLICES` slices."""
    return hash_of(uid) >> (HASH_BITS - _LABEL_BITS)


def label_of_slice(number: int) -> str:
    """Return the label value of a slice: `00` to `ff`."""
    return f"{number:02x}"


def label_key(program: str) -> str:
    """Return the key of the label of a program's children."""
    return f"{program}/shard"


def label_of(uid: str) -> str:
    """Return the label value for children of the object with that UID."""
    return label_of_slice(slice_of_uid(uid))


@dataclass(frozen=True, slots=True)
class ChildLabel:
    """The label of a program's children, by which a selector finds the children of some owners.

    While `is_set`, each apply with an owner sets the label. Otherwise apply keeps a correct label: removing
    it would cost one write for each child.
    """

    key: str
    is_set: bool = False
