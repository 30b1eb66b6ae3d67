"""Protobuf bodies: objects that a real server returned as protobuf and JSON, and damaged bodies."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import pytest

from devcluster.errors import StatusError
from devcluster.types import decode_protobuf
from tests.recordings.types import protobuf, varint

CONFIG_MAP = ("", "v1", "ConfigMap")
NAMED_FOO = b"\n\x07\n\x03foo\x12\0"


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def envelope(raw: bytes, kind: bytes = b"ConfigMap", api_version: bytes = b"v1") -> bytes:
    return b"k8s\0" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw) + b'\x1a\0"\0'


@pytest.mark.parametrize(("name", "body", "obj"), protobuf())
def test_recorded_protobuf_body_decodes_to_the_same_object_as_the_recorded_json(
    name: str, body: bytes, obj: dict[str, Any]
):
    assert decode_protobuf(body) == obj


@pytest.mark.parametrize(("name", "body", "obj"), protobuf())
def test_truncated_protobuf_body_raises_no_error_except_status_error(
    name: str, body: bytes, obj: dict[str, Any]
):
    for end in range(0, len(body), 7):
        with contextlib.suppress(StatusError):
            decode_protobuf(body[:end])


def test_protobuf_body_without_kind_or_version_gets_them_from_the_request_path():
    for kind, api_version in ((b"", b"v1"), (b"ConfigMap", b""), (b"", b"")):
        decoded = decode_protobuf(envelope(NAMED_FOO, kind, api_version), CONFIG_MAP)
        assert decoded == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "foo"}}


def test_protobuf_decoding_skips_unknown_fields():
    assert decode_protobuf(envelope(NAMED_FOO + b"\xfa\x01\x01a"))["metadata"] == {"name": "foo"}


def test_protobuf_delete_options_are_decoded_when_their_api_version_names_a_group():
    decoded = decode_protobuf(envelope(b"\x08\x05", b"DeleteOptions", b"apps/v1"))
    assert decoded == {"kind": "DeleteOptions", "apiVersion": "apps/v1", "gracePeriodSeconds": 5}


def nested_schemas(levels: int) -> bytes:
    """Return a protobuf CRD whose schema has this many nested fields `not`."""
    raw = b""
    for number in [28] * levels + [1, 4, 7, 2]:
        raw = field(number, raw)
    kind = field(1, b"apiextensions.k8s.io/v1") + field(2, b"CustomResourceDefinition")
    return b"k8s\0" + field(1, kind) + field(2, raw)


@pytest.mark.parametrize("limit", [1000, 100_000])
def test_protobuf_nesting_depth_is_limited_for_any_python_recursion_limit(limit: int):
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        decode_protobuf(nested_schemas(95))
        for levels in (96, 2000):
            with pytest.raises(StatusError, match="nested too deeply"):
                decode_protobuf(nested_schemas(levels))
    finally:
        sys.setrecursionlimit(before)


UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "
PREFIX = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'
CANNOT = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: '


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", f"{UNRECOGNIZED}empty data (<empty>)"),
        (b"hello", f"{UNRECOGNIZED}{PREFIX} (68656c6c6f)"),
        (
            b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}',
            f'{UNRECOGNIZED}{PREFIX} ({{"apiVersion":"v1","kind":"Con ...)',
        ),
        (b"k8s\0", f"{UNRECOGNIZED}empty body (6b387300)"),
        (b"k8s", f"{UNRECOGNIZED}{PREFIX} (6b3873)"),
        (
            b"k8s\0" + b"junk" * 10,
            f"{UNRECOGNIZED}unexpected EOF (6b387300{'6a756e6b' * 6}6a75 ...)",
        ),
        (
            envelope(NAMED_FOO, b"Foo"),
            f'Foo{CANNOT.removeprefix("ConfigMap")}no kind "Foo" is registered for version "v1" {SCHEME}',
        ),
        (envelope(b"\n\x50\n\x03foo"), f"{CANNOT}unexpected EOF"),
        (envelope(b"\x08\x01"), f"{CANNOT}proto: wrong wireType = 0 for field ObjectMeta"),
    ],
)
def test_broken_protobuf_body_is_refused_with_the_message_of_the_real_server(body: bytes, message: str):
    with pytest.raises(StatusError) as caught:
        decode_protobuf(body, CONFIG_MAP)
    assert (caught.value.code, caught.value.message) == (400, message)
