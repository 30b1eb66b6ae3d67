"""JSON merge patches."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.patch import merge_patch


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b"}, {"b": None}, {"a": "b"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "text"}, {"a": {"b": None, "c": {"d": None, "e": 1}}}, {"a": {"c": {"e": 1}}}),
        ({"a": None}, {"a": {"b": None}}, {"a": {}}),
        ({}, {"a": [None, {"b": None, "c": 1}]}, {"a": [None, {"c": 1}]}),
        ({"a": 1}, [1, {"b": None}], [1, {}]),
    ],
)
def test_a_merge_patch_merges_maps_and_replaces_the_rest(document: Any, patch: Any, expected: Any):
    assert merge_patch(document, patch) == expected


def test_neither_argument_changes():
    document, patch = {"a": {"b": {"c": 1}}}, {"a": {"b": {"c": None, "d": {"e": None}}}}

    merge_patch(document, patch)

    assert document == {"a": {"b": {"c": 1}}}
    assert patch == {"a": {"b": {"c": None, "d": {"e": None}}}}
