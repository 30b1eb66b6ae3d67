from __future__ import annotations

import orjson
import pytest

from devcluster.api.json_reading import read_json


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (rb'"\ud83d\ude00"', "\N{GRINNING FACE}"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd\N{GRINNING FACE}"),
        (rb'"a\ud800b"', "a\ufffdb"),
        (rb'"\uDC00"', "\ufffd"),
        (rb'"\ud800\n"', "\ufffd\n"),
        (rb'"\\ud800\ud800"', "\\ud800\ufffd"),
        (b'"a\xffb"', "a\ufffdb"),
        (b'"\xe2\x82"', "\ufffd\ufffd"),
        (b'"\xed\xa0\x80"', "\ufffd\ufffd\ufffd"),
        (b'"\xc0\xaf"', "\ufffd\ufffd"),
        (b'"\xf0\x9f\x98x"', "\ufffd\ufffd\ufffdx"),
    ],
    ids=repr,
)
def test_what_is_no_character_is_replaced_as_the_real_server_does_it(text: bytes, read: str):
    document, stood_for = read_json(text)
    assert document == read
    assert orjson.loads(stood_for) == read


@pytest.mark.parametrize("text", [b"", b"{", b'"\xff', rb'"\ud800', rb'"\ud8"', b'{"a": nul}'])
def test_what_is_no_json_for_another_reason_stays_refused(text: bytes):
    with pytest.raises(orjson.JSONDecodeError):
        read_json(text)
