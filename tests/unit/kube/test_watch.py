from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.kube.decoding import decode_event, lines
from manager.kube.errors import Gone, ProtocolError, ServerError, status_error


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def cut(*chunks: bytes, limit: int = 1000) -> list[bytes]:
    return [line async for line in lines(pieces(*chunks), limit=limit)]


async def test_several_lines_in_one_piece_are_cut():
    assert await cut(b"a\nb\nc\n") == [b"a", b"b", b"c"]


async def test_a_line_in_several_pieces_is_joined():
    assert await cut(b"a", b"b", b"c\nd", b"\n") == [b"abc", b"d"]


async def test_a_line_that_was_not_finished_is_never_given_out():
    assert await cut(b"a\nhalf a li") == [b"a"]


async def test_empty_lines_are_left_out():
    assert await cut(b"\n\na\n\n", b"\n", b"b\n") == [b"a", b"b"]


async def test_a_line_without_end_is_refused_before_it_fills_the_memory():
    with pytest.raises(ProtocolError, match="longer than 10 bytes"):
        await cut(b"12345678", b"9012", limit=10)


@given(st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line)), st.data())
async def test_lines_do_not_depend_on_how_they_were_cut_into_pieces(wanted: list[bytes], data: st.DataObject):
    whole = b"".join(line + b"\n" for line in wanted)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    chunks = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert await cut(*chunks, limit=10**6) == wanted


def test_an_event_is_split_and_its_object_left_alone():
    event = decode_event(b'{"type":"ADDED","object":{"kind":"Pod", "x": 1}}')
    assert event.type == "ADDED"
    assert bytes(event.object) == b'{"kind":"Pod", "x": 1}'


@pytest.mark.parametrize(
    "line", [b"<html>", b'{"type":"ADDED"}', b'{"type":1,"object":{}}', b"[]", b'"\xff"']
)
def test_what_is_not_an_event_is_refused(line: bytes):
    with pytest.raises(ProtocolError, match="not a watch event"):
        decode_event(line)


def test_an_error_event_becomes_the_error_it_stands_for():
    line = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}'
    error = status_error(decode_event(line).object)
    assert isinstance(error, Gone)
    assert (error.status, error.reason, str(error)) == (410, "Expired", "too old")


def test_an_error_event_without_a_status_is_an_error_of_the_server():
    assert isinstance(status_error(decode_event(b'{"type":"ERROR","object":{"a":1}}').object), ServerError)
