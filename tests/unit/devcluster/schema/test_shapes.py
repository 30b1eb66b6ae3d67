"""Defaults, patterns and value comparison of schemas that no recording contains."""

from __future__ import annotations

import re
from typing import Any

import pytest

from devcluster.schema.correlation import same
from devcluster.schema.defaulting import default
from devcluster.schema.node import parse
from devcluster.schema.patterns import compile_pattern


def test_schema_default_is_not_shared_between_objects():
    schema = parse({"type": "object", "properties": {"a": {"type": "object", "default": {"b": [1]}}}})
    one: dict[str, Any] = {}
    default(one, schema)
    one["a"]["b"].append(2)
    other: dict[str, Any] = {}
    default(other, schema)
    assert other == {"a": {"b": [1]}}


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^(a+)+$", "a" * 5000 + "!", False),
        (r"^[\p{L}\p{N}]{1,500}$", "é" * 500, True),
        (r"^(\w+\s?)*$", "a" * 5000 + "!", False),
    ],
)
def test_compile_pattern_matches_long_texts_quickly(pattern: str, text: str, *, matches: bool):
    assert (compile_pattern(pattern).search(text) is not None) is matches


@pytest.mark.parametrize(
    ("pattern", "mistake"),
    [
        (r"a\p{Adlam}", r"invalid character class range: `\p{Adlam}`"),
        (r"(\pL\pN\pL\pN){1000}", r"expression too large: `(\pL\pN\pL\pN){1000}`"),
    ],
)
def test_compile_pattern_refuses_an_unsupported_or_too_large_pattern(pattern: str, mistake: str):
    with pytest.raises(ValueError, match=re.escape(f"error parsing regexp: {mistake}")):
        compile_pattern(pattern)


def test_comparison_with_the_old_value_distinguishes_integers_floats_and_booleans():
    assert same({"a": [1, None]}, {"a": [1, None]})
    assert not same(1, 1.0)
    assert not same(1, True)


def test_schema_default_of_a_null_fills_in_the_defaults_inside_it():
    inside = {"a": {"type": "string"}, "b": {"type": "string", "default": "nested"}}
    inner = {"type": "object", "default": {"a": "own"}, "properties": inside}
    schema = parse({"type": "object", "additionalProperties": {"type": "array", "items": inner}})
    obj: dict[str, Any] = {"list": [None]}
    default(obj, schema)
    assert obj == {"list": [{"a": "own", "b": "nested"}]}
    obj = {"map": None}
    default(obj, parse({"type": "object", "additionalProperties": inner}))
    assert obj == {"map": {"a": "own", "b": "nested"}}
