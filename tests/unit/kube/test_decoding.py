"""Decoding of responses; a malformed response raises a KubeError that quotes nothing of it."""

from __future__ import annotations

import functools
import json
import traceback
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.api import ObjectKey
from manager.cache.informer import deleted_uid
from manager.cache.record import RecordDecoder
from manager.cache.reflector import decode_bookmark
from manager.client.managed_fields import decoded
from manager.client.reader import decode_at_once
from manager.election.lease import Lease
from manager.kube import rest_mapping
from manager.kube.decoding import (
    _shallow,
    decode_event,
    decode_list,
    json_object,
    lines,
    shallow_at_once,
    watch_events,
)
from manager.kube.errors import Gone, KubeError, ProtocolError, ServerError, error_from, status_error
from manager_kinds.core_v1 import Secret
from manager_tools.migration.definitions import decode_definition
from tests.fuzz import inputs
from tests.support.effort import Effort, turns_of_others

WORD = "hunter2"
SECRET: dict[str, Any] = {
    "kind": "Secret",
    "apiVersion": "v1",
    "metadata": {
        "name": "a",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "10",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": WORD},
        "managedFields": [{"manager": "test", "operation": "Apply", "fieldsV1": {"f:data": {}}}],
    },
    "data": {"password": WORD},
    "type": "Opaque",
}
KEY = ObjectKey("ns", "a")
JSON = {"Content-Type": "application/json"}


def raise_(error: Exception) -> None:
    raise error


def renewed(raw: bytes) -> None:
    lease = Lease.decode(raw)
    lease.claimed(identity="me", seconds=lease.version or 15, now=NOW).encode()


def whole(raw: bytes) -> None:
    RecordDecoder(Secret.gvk, field_manager="test")(raw)


def metadata_only(raw: bytes) -> None:
    RecordDecoder(Secret.gvk, field_manager="test", metadata_only=True)(raw)


DECODERS: dict[str, Callable[[bytes], object]] = {
    "an error response": lambda raw: raise_(error_from(500, JSON, raw)),
    "an error event": lambda raw: raise_(status_error(raw)),
    "a line of a watch": decode_event,
    "a watch event": lambda raw: decode_event(b'{"type":"ADDED","object":%b}' % raw),
    "an object for the cache": whole,
    "metadata for the cache": metadata_only,
    "a list": decode_list,
    "an item of a list": lambda raw: decode_list(b'{"metadata":{"resourceVersion":"1"},"items":[%b]}' % raw),
    "a bookmark": decode_bookmark,  # type: ignore[arg-type]
    "a delete response": deleted_uid,
    "discovery": rest_mapping._decode,
    "an uncached read": lambda raw: decode_at_once(raw, Secret, KEY),
    "a subresource": lambda raw: json_object(raw, "a scale"),
    "the object of an apply": lambda raw: decoded(Secret, raw),
    "a definition": functools.partial(decode_definition, position="a/position"),
    "a lease": renewed,
}


NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRETS = inputs.odd_json([SECRET]).map(lambda raw: raw.replace("\u00e4".encode(), WORD.encode()))
"""Malformed Secrets that contain the secret word at random places."""


@given(raw=SECRETS)
def test_malformed_response_raises_a_kube_error_that_does_not_quote_the_response(raw: bytes):
    for what, decode in DECODERS.items():
        error: Exception | None = None
        try:
            decode(raw)
        except KubeError as raised:
            error = raised
        except Exception as raised:
            raised.add_note(what)
            raise
        if error is not None:
            assert WORD not in "".join(traceback.format_exception(error)), what
            assert len(str(error)) < 500, what


@pytest.mark.parametrize(
    "opening", [b"[", b'{"a":', b'{"kind":"Status","details":{"a":', b'{"metadata":{"a":']
)
@pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS.keys())
def test_decoders_raise_a_kube_error_for_endlessly_nested_json(
    decode: Callable[[bytes], object], opening: bytes
):
    with pytest.raises(KubeError):
        decode(opening * 30_000)


def test_protocol_error_names_the_place_and_the_cause_of_a_decoding_failure():
    with pytest.raises(ProtocolError, match=r"^not a list: Expected `str`, got `int` - at `\$.metadata.*`$"):
        decode_list(b'{"metadata":{"resourceVersion":5},"items":[]}')
    with pytest.raises(ProtocolError, match=r"^not a list: it is nested too deeply$"):
        decode_list(b'{"a":' * 100_000)
    with pytest.raises(ProtocolError, match=r"^not a scale: it is no JSON from character 1 on$"):
        json_object(b"{hunter2", "a scale")
    with pytest.raises(ProtocolError, match=r"^not a scale$"):
        json_object(b"[]", "a scale")


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def cut(*chunks: bytes, limit: int = 1000) -> list[bytes]:
    return [line async for line in lines(pieces(*chunks), limit=limit)]


async def test_line_splitter_skips_empty_lines_and_an_incomplete_last_line():
    assert await cut(b"\n\na\n\n", b"\n", b"b\nhalf a li") == [b"a", b"b"]


async def test_line_splitter_raises_protocol_error_for_a_line_beyond_the_limit():
    with pytest.raises(ProtocolError, match="longer than 10 bytes"):
        await cut(b"12345678", b"9012", limit=10)


@given(st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line)), st.data())
async def test_line_splitter_yields_the_same_lines_for_any_chunks(wanted: list[bytes], data: st.DataObject):
    whole = b"".join(line + b"\n" for line in wanted)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    chunks = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert await cut(*chunks, limit=10**6) == wanted


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"MODIFIED","object":{"kind":"Pod", "x": {"y": 1}}}',
        b'{"object": {"kind":"Pod", "x": {"y": 1}}, "type": "MODIFIED"}',
        b'{"type":"MODIFIED","object":{"kind":"Pod", "x": {"y": 1}} }',
    ],
)
async def test_watch_event_contains_the_undecoded_object_for_any_order_of_the_event_fields(line: bytes):
    (event,) = [event async for event in watch_events(pieces(line + b"\n"))]
    assert (event.type, bytes(event.object)) == ("MODIFIED", b'{"kind":"Pod", "x": {"y": 1}}')


async def test_watch_event_reader_yields_to_other_tasks_between_events_of_one_chunk():
    line = b'{"type":"ADDED","object":{"a":"%b"}}\n' % (b"x" * 30_000)

    async def read() -> int:
        return len([event async for event in watch_events(pieces(line * 20))])

    assert await turns_of_others(read()) >= 9


@pytest.mark.parametrize("rest", [b"", b'"a":1},"object":{'])
async def test_record_decoder_refuses_a_watch_event_whose_object_lacks_required_fields(rest: bytes):
    line = b'{"type":"ADDED","object":{"kind":"Secret",%b"metadata":{' % rest + b"}}}\n"
    (event,) = [event async for event in watch_events(pieces(line))]
    with pytest.raises(ProtocolError, match="not a Secret object"):
        RecordDecoder(Secret.gvk, field_manager="")(event.object)


@pytest.mark.parametrize(
    "line", [b"<html>", b'{"type":"ADDED"}', b'{"type":1,"object":{}}', b"[]", b'"\xff"']
)
def test_decode_event_refuses_malformed_lines(line: bytes):
    with pytest.raises(ProtocolError, match="not a watch event"):
        decode_event(line)


def test_status_error_returns_gone_for_code_410_and_server_error_for_a_non_status_object():
    line = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}'
    error = status_error(decode_event(line).object)
    assert isinstance(error, Gone)
    assert (error.status, error.reason, str(error)) == (410, "Expired", "too old")
    assert isinstance(status_error(decode_event(b'{"type":"ERROR","object":{"a":1}}').object), ServerError)


def test_function_shallow_at_once_truncates_deep_json_and_returns_a_text_above_4_mib_unchanged():
    deep = b"[" * 1_000 + b"]" * 1_000
    assert shallow_at_once(deep) == b"[" * 200 + b"null" + b"]" * 200
    for same in (b"<html>" * 1_000, deep + b" " * 4 * 1024 * 1024):
        assert shallow_at_once(same) is same


@pytest.mark.parametrize("end", [b"", b"\\", b'"', b'"]'])
@pytest.mark.parametrize("text", [b'\\"', b'a\\"', b"\\\\"])
def test_depth_truncation_scans_an_unterminated_string_only_once(text: bytes, end: bytes):
    deep = b"[" * 1_000 + b'"' + text * 100_000 + end
    with Effort() as spent:
        assert shallow_at_once(deep).startswith(b"[" * 200)
    assert spent.units < 50


def cut_below(value: Any, levels: int) -> Any:
    """Return `value` with None in place of all values that are nested deeper than `levels`."""
    if not isinstance(value, dict | list):
        return value
    if not levels:
        return None
    if isinstance(value, list):
        return [cut_below(each, levels - 1) for each in value]
    return {name: cut_below(each, levels - 1) for name, each in value.items()}


texts = st.text(alphabet='[]{}"\\a', max_size=8)


values = st.recursive(texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20)


@given(value=values, piece=st.integers(1, 20))
def test_depth_truncation_replaces_values_beyond_the_limit_by_null(value: Any, piece: int):
    raw = b"[" * 198 + orjson.dumps([value, {"a": [[value]]}]) + b"]" * 198
    for around, cut in ((0, shallow_at_once(raw)), (1, _shallow(raw, 1)), (1, _shallow(raw, 1, piece))):
        assert orjson.loads(cut) == cut_below(json.loads(raw), 200 + around)


class Sliced(bytes):
    """Bytes that record the length of each slice that is read."""

    def __init__(self, _: bytes) -> None:
        self.lengths: list[int] = []

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        self.lengths += [len(found)] if isinstance(found, bytes) else []
        return found


def test_depth_truncation_searches_at_most_64_kib_of_a_large_text_at_a_time():
    raw = Sliced(b"[" * 300 + b'"' + b"a" * 1024 * 1024 + b'"' + b"]" * 300)
    assert _shallow(raw) == b"[" * 200 + b"null" + b"]" * 200
    searched = [length for length in raw.lengths if length > 200]
    assert max(searched) <= 64 * 1024
    assert sum(searched) >= len(raw)
