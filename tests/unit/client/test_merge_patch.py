from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.client.write import merge_diff

# A merge patch cannot set a field to null, so documents that hold one are out of its reach.
SCALARS = st.booleans() | st.integers(-5, 5) | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
)
DOCUMENTS = st.dictionaries(st.text(max_size=2), VALUES, max_size=4)


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2, as the RFC spells it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result


@given(DOCUMENTS, DOCUMENTS)
def test_apply_merge_patch_of_the_difference_yields_the_wanted_document(
    before: dict[str, Any], after: dict[str, Any]
):
    assert apply_merge_patch(before, merge_diff(before, after)) == after


@given(DOCUMENTS)
def test_merge_diff_of_equal_documents_is_empty(document: dict[str, Any]):
    assert merge_diff(document, document) == {}


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b": 3}),
        ({"a": 1}, {}, {"a": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, {"a": [1, 2, 3]}),
        ({"a": True}, {"a": 1}, {"a": 1}),
        ({"a": {"b": 1}}, {"a": []}, {"a": []}),
    ],
)
def test_merge_diff_contains_only_changes(
    before: dict[str, Any], after: dict[str, Any], patch: dict[str, Any]
):
    assert merge_diff(before, after) == patch
