"""Inputs of the fuzz targets: valid inputs with random errors, and very large or deeply nested inputs."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any

import orjson
from hypothesis import strategies as st

__all__ = ["bombs", "dumped", "mutated", "odd", "odd_json", "texts", "values"]

_TOKENS = (
    *rb"""[ ] { } {"a": [[], [{}, " \ \ud800 , : null true - 9 1e999 -1 0.1 e ? % <<:""".split(),
    *(b" ", b"\0", b"\n", b"\r\n", b"- ", b"\xff", b"\xed\xa0\x80", b"\xc3", b"HTTP/1.1 200 OK\r\n\r\n"),
    *b"kind metadata resourceVersion &a *a !!python/object:x".split(),
    *(b"!!int ", b"!!timestamp ", b"2001-99-99", b"0001-01-01T00:00:00+23:59"),
)
_DEEP = {f"@{depth}": b"[" * depth + b"1" + b"]" * depth for depth in (200, 260, 900, 1100, 5000)}
"""`dumped` replaces these texts by nested lists, most of them too deep for the encoder."""

_ODD = (
    *(None, True, False, 0, -1, 2**63, 2**64 - 1, 1e308),
    *("", " ", "0", "9" * 5000, "a" * 70_000, "\ud7ff\ue000", "\0"),
    *_DEEP,
    *("2001-01-01T00:00:00Z", "1h", "../..", "a/b", "a\nb", "ä"),
    *([], {}, [None], [{}], [[]], {"": ""}, {"name": 1}),
)


@functools.cache  # Hypothesis validates each new strategy, which is slow
def bombs(most: int = 30_000) -> st.SearchStrategy[bytes]:
    """Return a Hypothesis strategy that generates one token, repeated up to `most` times."""
    return st.builds(
        lambda token, times, end: token * min(times, most) + end,
        st.sampled_from(_TOKENS),
        st.sampled_from([100, 1500, 30_000]),
        st.sampled_from([b"", b"1", b"]", b"}", b"\n"]),
    )


@functools.cache
def pieces(most: int) -> st.SearchStrategy[bytes]:
    """Return a strategy for the bytes that `mutated` inserts: a few bytes, or up to `most` equal tokens."""
    return st.one_of(st.binary(max_size=8), st.sampled_from(_TOKENS), bombs(most))


@st.composite
def mutated(draw: st.DrawFn, originals: Sequence[bytes], most: int = 30_000) -> bytes:
    """Draw one of the originals, with up to three ranges of bytes replaced by random bytes."""
    data = draw(st.sampled_from(originals))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        data = data[:start] + draw(pieces(most)) + data[end:]
    return data


@functools.cache
def texts() -> st.SearchStrategy[str]:
    """Return a Hypothesis strategy that generates any text, also words that parsers treat specially."""
    return st.one_of(
        st.text(max_size=20),
        st.sampled_from([each for each in _ODD if isinstance(each, str)]),
        bombs().map(lambda data: data.decode("utf-8", "replace")),
    )


@functools.cache
def values() -> st.SearchStrategy[Any]:
    """Return a Hypothesis strategy that generates any JSON value."""
    leaves = st.one_of(
        st.sampled_from(_ODD),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False),
        st.text(max_size=5),
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    ).map(copy.deepcopy)  # a later mutation may change the drawn value


_NAMES = st.sampled_from(["metadata", "spec", "kind", "name", ""]) | st.text(max_size=5)


@st.composite
def odd(draw: st.DrawFn, originals: Sequence[Any]) -> Any:
    """Draw one of the originals, with up to three values replaced, added or removed."""
    document = copy.deepcopy(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(0, 3))):
        places = list(_places(document))
        if not places:
            break
        holder, key = draw(st.sampled_from(places))
        what = draw(st.sampled_from(["exchange", "add", "take"]))
        if what == "take":
            del holder[key]
        elif what == "add" and isinstance(holder, dict):
            holder[draw(_NAMES)] = draw(values())
        else:
            holder[key] = draw(values())
    return document


def odd_json(originals: Sequence[Any]) -> st.SearchStrategy[bytes]:
    """Return a Hypothesis strategy that generates JSON of the originals, with changed values or bytes."""
    written = [orjson.dumps(each) for each in originals]
    return st.one_of(odd(originals).map(dumped), mutated(written))


def dumped(document: Any) -> bytes:
    """Encode a document as JSON, with some texts replaced by nested lists; "null" if it cannot be encoded."""
    try:
        written = orjson.dumps(document)
    except TypeError:  # half a surrogate pair
        return b"null"
    for text, value in _DEEP.items():
        written = written.replace(b'"%b"' % text.encode(), value)
    return written


def _places(document: Any) -> Any:
    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(pairs):
        yield document, key
        if isinstance(value, (dict, list)):
            yield from _places(value)
