"""The patch from one document to another."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.webhook.admission import json_patch

scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, "", "a", "b"])
names = st.sampled_from(["a", "b", "a/b", "~", "~1", "", "0"])
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(names, documents, max_size=4)


def encoded(document: Any) -> bytes:
    """Encode the value so that 1, 1.0 and True differ, unlike with Python's ==."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


@given(objects, objects)
def test_json_patch_converts_the_first_document_into_the_second(
    before: dict[str, Any], after: dict[str, Any]
):
    untouched = copy.deepcopy((before, after))
    patch = json_patch(before, after)
    assert encoded([before, after]) == encoded(list(untouched))
    assert encoded(jsonpatch.apply_patch(before, patch)) == encoded(after)
    assert (patch == []) == (encoded(before) == encoded(after))


@given(objects, st.lists(st.tuples(names, documents), max_size=3))
def test_json_patch_is_no_longer_than_the_changed_fields(
    before: dict[str, Any], changes: list[tuple[str, Any]]
):
    after = {**copy.deepcopy(before), **dict(changes)}
    whole = [{"op": "replace", "path": f"/{name}", "value": after[name]} for name, _ in dict(changes).items()]
    patch = json_patch(before, after)
    assert len(patch) <= max(len(whole), 0) or len(orjson.dumps(patch)) <= len(orjson.dumps(whole))


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({}, {"a": None}, [{"op": "add", "path": "/a", "value": None}]),
        ({"a": None}, {}, [{"op": "remove", "path": "/a"}]),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({"a": [1]}, {"a": [1.0]}, [{"op": "replace", "path": "/a", "value": [1.0]}]),
        (
            {"spec": {"long name": "x" * 20, "b": 1}},
            {"spec": {"long name": "x" * 20, "b": 2}},
            [{"op": "replace", "path": "/spec/b", "value": 2}],
        ),
        ({"x": {"a/b~c": 1}}, {"x": {"a/b~c": 2}}, [{"op": "replace", "path": "/x/a~1b~0c", "value": 2}]),
        ({"a": {"b": 1}}, {"a": [1]}, [{"op": "replace", "path": "/a", "value": [1]}]),
    ],
)
def test_json_patch_is_minimal(before: Any, after: Any, patch: Any):
    assert json_patch(before, after) == patch
