"""JSON patches and merge patches."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.errors import StatusError
from devcluster.patch import json_patch, merge_patch

DOCUMENT = {"data": {"a": "1", "with/slash": "s", "with~tilde": "t"}, "items": [1, 2, 3], "none": None}


@pytest.mark.parametrize(
    ("operation", "path", "expected"),
    [
        ({"op": "add", "path": "/data/b", "value": "2"}, ("data", "b"), "2"),
        ({"op": "add", "path": "/data/a", "value": "new"}, ("data", "a"), "new"),
        ({"op": "add", "path": "/items/-", "value": 4}, ("items",), [1, 2, 3, 4]),
        ({"op": "add", "path": "/items/0", "value": 0}, ("items",), [0, 1, 2, 3]),
        ({"op": "add", "path": "/items/3", "value": 4}, ("items",), [1, 2, 3, 4]),
        ({"op": "add", "path": "/items/-1", "value": 4}, ("items",), [1, 2, 3, 4]),
        ({"op": "add", "path": "/data/b"}, ("data", "b"), None),
        ({"op": "remove", "path": "/items/-1"}, ("items",), [1, 2]),
        ({"op": "replace", "path": "/data/with~1slash", "value": "x"}, ("data", "with/slash"), "x"),
        ({"op": "replace", "path": "/data/with~0tilde", "value": "x"}, ("data", "with~tilde"), "x"),
        ({"op": "replace", "path": "/data/absent", "value": "x"}, ("data", "absent"), "x"),
        ({"op": "replace", "path": "/items/1", "value": 9}, ("items",), [1, 9, 3]),
        ({"op": "move", "from": "/data/a", "path": "/data/z"}, ("data", "z"), "1"),
        ({"op": "move", "from": "/items/0", "path": "/items/-"}, ("items",), [2, 3, 1]),
        ({"op": "copy", "from": "/items", "path": "/data/list"}, ("data", "list"), [1, 2, 3]),
        ({"op": "copy", "from": "/data/absent", "path": "/data/z"}, ("data", "z"), None),
        ({"op": "test", "path": "/data/a", "value": "1"}, ("data", "a"), "1"),
        ({"op": "test", "path": "/data/absent", "value": None}, ("items",), [1, 2, 3]),
        ({"op": "test", "path": "/data/absent"}, ("items",), [1, 2, 3]),
        ({"op": "test", "path": "", "value": DOCUMENT}, ("items",), [1, 2, 3]),
        ({"op": "replace", "path": "", "value": {"all": "new"}}, ("all",), "new"),
    ],
)
def test_json_patch_applies_each_operation(operation: dict[str, Any], path: tuple[str, ...], expected: Any):
    found = json_patch(DOCUMENT, [operation])

    for step in path:
        found = found[step]
    assert found == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/data/absent"},
        {"op": "remove", "path": "/items/3"},
        {"op": "remove", "path": "/items/x"},
        {"op": "remove", "path": "/none/x"},
        {"op": "add", "path": "/items/5", "value": 1},
        {"op": "add", "path": "/absent/x", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "path": "data", "value": {}},
        {"op": "add", "value": 1},
        {"op": "replace", "path": "/items/3", "value": 1},
        {"op": "replace", "path": "", "value": "text"},
        {"op": "move", "from": "/data/absent", "path": "/data/z"},
        {"op": "move", "path": "/data/z"},
        {"op": "copy", "from": "/items/7", "path": "/data/z"},
        {"op": "test", "path": "/data/a", "value": "2"},
        {"op": "test", "path": "/items/0", "value": True},
        {"op": "test", "path": "/items", "value": [1, 2]},
        {"op": "merge", "path": "/data/a"},
        {"path": "/data/a"},
    ],
)
def test_json_patch_refuses_impossible_operations_without_the_reason(operation: dict[str, Any]):
    with pytest.raises(StatusError) as refused:
        json_patch(DOCUMENT, [operation])

    assert (refused.value.code, refused.value.reason, refused.value.details) == (422, "Invalid", {})
    assert refused.value.message == "the server rejected our request due to an error in our request"


def test_patch_does_not_change_its_input():
    before = {"data": {"a": {"b": [1]}}}

    json_patch(
        before, [{"op": "add", "path": "/data/a/b/-", "value": 2}, {"op": "remove", "path": "/data/a"}]
    )

    assert before == {"data": {"a": {"b": [1]}}}


def test_json_patch_copies_a_value_that_it_uses_twice():
    patched = json_patch(
        {"a": {"x": 1}},
        [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/x", "value": 2}],
    )

    assert patched == {"a": {"x": 1}, "b": {"x": 2}}


def test_json_patch_refuses_too_many_operations():
    with pytest.raises(StatusError) as refused:
        json_patch({}, [{"op": "test", "path": "/x"}] * 10_001)

    assert (refused.value.code, refused.value.message) == (
        413,
        "The allowed maximum operations in a JSON patch is 10000, got 10001",
    )


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
def test_merge_patch_merges_maps_and_replaces_the_rest(document: Any, patch: Any, expected: Any):
    assert merge_patch(document, patch) == expected


def test_merge_patch_changes_neither_argument():
    document, patch = {"a": {"b": {"c": 1}}}, {"a": {"b": {"c": None, "d": {"e": None}}}}

    merge_patch(document, patch)

    assert document == {"a": {"b": {"c": 1}}}
    assert patch == {"a": {"b": {"c": None, "d": {"e": None}}}}
