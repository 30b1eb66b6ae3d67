"""Alternatives of a schema (`oneOf`, `anyOf`, `allOf`): reported errors, and the cost of validation."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.schema.formats import parse_duration
from devcluster.schema.node import parse
from devcluster.schema.validation import validate

FILE = {"required": ["file"], "properties": {"type": {"enum": ["File"]}}}
INLINE = {"required": ["inline"], "properties": {"type": {"enum": ["Inline"]}}}
LEVELS = 40


def messages(schema: dict[str, Any], value: Any) -> list[str]:
    return [f"{error.field}: {error.text}" for error in validate(value, parse(schema))]


@pytest.mark.parametrize("group", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("alternatives", "value", "field"),
    [
        # The number of checks is equal, so the first is reported, although it has more errors.
        ([FILE, INLINE], {"type": "Inline"}, "file"),
        # The second has more checks, so it is reported.
        (
            [{"required": ["a"]}, {"required": ["b"], "properties": {"type": {"type": "string"}}}],
            {"type": "x"},
            "b",
        ),
    ],
)
def test_any_of_and_one_of_report_errors_of_the_alternative_with_the_largest_number_of_checks(
    group: str, alternatives: list[dict[str, Any]], value: Any, field: str
):
    found = messages({"type": "object", group: alternatives}, value)
    assert [each for each in found if each.endswith("Required value")] == [f"{field}: Required value"]


@pytest.mark.parametrize("group", ["anyOf", "oneOf", "allOf"])
def test_schema_validate_is_fast_for_deeply_nested_alternatives(group: str):
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(LEVELS):  # two evaluations per level would be 2**40 checks
        schema = {group: [schema]}
    assert any("must be of type integer" in each for each in messages({"type": "object", **schema}, {}))


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0" * 5000 + "1.5s", 15 * 10**8),
        ("." + "1" * 5000 + "us", 111),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
        ("9223372036854775808ns", None),
        ("9" * 5000 + "s", None),
        ("9999999999h", None),
    ],
)
def test_parse_duration_accepts_64_bits_of_nanoseconds(text: str, nanoseconds: int | None):
    assert parse_duration(text) == nanoseconds
