from __future__ import annotations

import pytest

from devcluster.api.json_errors import describe


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b"blah", "invalid character 'b' looking for beginning of value"),
        (b"foo", "invalid character 'o' in literal false (expecting 'a')"),
        (b"{a", "invalid character 'a' looking for beginning of object key string"),
        (b'{"a" 1', "invalid character '1' after object key"),
        (b'{"a":1 "b"', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b"'", r"invalid character '\'' looking for beginning of value"),
        (b'"\\x"', "invalid character 'x' in string escape code"),
        (b'"\n"', "invalid character '\\n' in string literal"),
        (b"[" * 20_000, "exceeded max depth"),
    ],
)
def test_broken_json_is_described_as_go_does(text: bytes, expected: str) -> None:
    assert describe(text) == expected
