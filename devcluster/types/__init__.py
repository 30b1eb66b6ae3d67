"""Types of the built-in kinds: their schemas, and Go's rules for reading and writing them."""

from __future__ import annotations

from devcluster.types.codec import DecodeError
from devcluster.types.decode import cannot_be_handled, convert, decode_strict
from devcluster.types.json_text import duplicate_fields
from devcluster.types.protobuf import decode_protobuf, excerpt
from devcluster.types.schemas import schema_for, schema_of
from devcluster.types.table import name_of
from devcluster.types.times import canonical

__all__ = [
    "DecodeError",
    "cannot_be_handled",
    "canonical",
    "convert",
    "decode_protobuf",
    "decode_strict",
    "duplicate_fields",
    "excerpt",
    "name_of",
    "schema_for",
    "schema_of",
]
