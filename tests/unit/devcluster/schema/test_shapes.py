from __future__ import annotations

import re
from typing import Any

import pytest

from devcluster.quantity import show_float
from devcluster.schema.correlation import same
from devcluster.schema.defaulting import default, prune
from devcluster.schema.node import parse
from devcluster.schema.patterns import compile_pattern
from devcluster.schema.problems import FieldPathError, resolve_field_path

KEEP = {"x-kubernetes-preserve-unknown-fields": True}
SCHEMA = parse(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "known": {"type": "string"},
                    "map": {
                        "type": "object",
                        "additionalProperties": {"type": "object", "properties": {"a": {}}},
                    },
                    "list": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"a": {"type": "string"}}},
                    },
                    "free": {"type": "object", "properties": {"a": {"type": "object"}}, **KEEP},
                    "whole": {
                        "type": "object",
                        "x-kubernetes-embedded-resource": True,
                        "properties": {"spec": KEEP},
                    },
                },
            }
        },
    }
)


def test_unknown_fields_are_removed_and_reported():
    obj: dict[str, Any] = {
        "apiVersion": "g/v1",
        "kind": "K",
        "metadata": {"anything": 1},
        "other": 1,
        "spec": {
            "known": "a",
            "unknown": {"b": 1},
            "map": {"x": {"a": 1, "b": 1}},
            "list": [{"a": "1"}, {"b": 2}],
            "free": {"a": {"b": 1}, "z": {"y": 1}},
            "whole": {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"x": 1},
                "spec": {"a": 1},
                "status": {},
            },
        },
    }
    assert prune(obj, SCHEMA) == [
        "other",
        "spec.free.a.b",
        "spec.list[1].b",
        "spec.map.x.b",
        "spec.unknown",
        "spec.whole.status",
    ]
    assert obj == {
        "apiVersion": "g/v1",
        "kind": "K",
        "metadata": {"anything": 1},
        "spec": {
            "known": "a",
            "map": {"x": {"a": 1}},
            "list": [{"a": "1"}, {}],
            "free": {"a": {}, "z": {"y": 1}},
            "whole": {"apiVersion": "v1", "kind": "Pod", "metadata": {"x": 1}, "spec": {"a": 1}},
        },
    }


def test_defaults_fill_missing_and_null_fields_and_are_not_shared():
    schema = parse(
        {
            "type": "object",
            "properties": {
                "a": {
                    "type": "object",
                    "default": {"b": [1]},
                    "properties": {"c": {"type": "integer", "default": 2}},
                },
                "n": {"type": "string", "nullable": True, "default": "x"},
                "m": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"d": {"default": 1}}},
                },
                "l": {"type": "array", "items": {"type": "object", "properties": {"d": {"default": 1}}}},
                "f": {"type": "integer"},
            },
        }
    )
    one: dict[str, Any] = {"a": None, "n": None, "m": {"x": {}}, "l": [{}, {"d": 5}], "f": None}
    default(one, schema)
    assert one == {"a": {"b": [1], "c": 2}, "n": None, "m": {"x": {"d": 1}}, "l": [{"d": 1}, {"d": 5}]}
    one["a"]["b"].append(2)
    other: dict[str, Any] = {}
    default(other, schema)
    assert other == {"a": {"b": [1], "c": 2}, "n": "x"}


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^(a+)+$", "a" * 5000 + "!", False),
        (r"^[\p{L}\p{N}]{1,500}$", "é" * 500, True),
        (r"^(\w+\s?)*$", "a" * 5000 + "!", False),
    ],
)
def test_compile_pattern_matches_long_texts_at_once(pattern: str, text: str, *, matches: bool):
    assert (compile_pattern(pattern).search(text) is not None) is matches


@pytest.mark.parametrize(
    ("pattern", "mistake"),
    [
        (r"a\p{Adlam}", r"invalid character class range: `\p{Adlam}`"),
        (r"(\pL\pN\pL\pN){1000}", r"expression too large: `(\pL\pN\pL\pN){1000}`"),
    ],
)
def test_compile_pattern_refuses_what_is_beyond_its_bounds(pattern: str, mistake: str):
    with pytest.raises(ValueError, match=re.escape(f"error parsing regexp: {mistake}")):
        compile_pattern(pattern)


def test_field_path_is_followed_or_refused_with_the_message_of_the_real_server():
    schema = parse(
        {
            "type": "object",
            "properties": {
                "a": {"type": "object", "properties": {"b.c": {"type": "string"}}},
                "m": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        }
    )
    assert resolve_field_path(".a['b.c']", schema)[0] == "a.b.c"
    assert resolve_field_path(".m['x']", schema)[0] == "m[x]"
    for path, why in {
        ".z": "does not refer to a valid field",
        "a": r"expected \[ or . but got: a",
        ".a[b]": "expected single quoted string but got b",
        ".": "unexpected end of JSON path",
    }.items():
        with pytest.raises(FieldPathError, match=why):
            resolve_field_path(path, schema)
    with pytest.raises(FieldPathError, match="array notation is not allowed"):
        resolve_field_path(".a['b.c']", schema, brackets=False)


def test_numbers_of_different_types_are_different_values():
    assert same({"a": [1, None]}, {"a": [1, None]})
    assert not same(1, 1.0)
    assert not same(1, True)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.5, "0.5"),
        (3.0, "3"),
        (0.0, "0"),
        (1e6, "1e+06"),
        (100000.5, "100000.5"),
        (1e-5, "1e-05"),
        (-2.5, "-2.5"),
    ],
)
def test_floats_are_shown_as_go_shows_them(value: float, shown: str):
    assert show_float(value) == shown
