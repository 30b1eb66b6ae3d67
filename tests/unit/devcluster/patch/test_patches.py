"""JSON patches that no recording of a real server contains."""

from __future__ import annotations

import pytest

from devcluster.errors import StatusError
from devcluster.patch import json_patch


def test_json_patch_replaces_the_whole_document_when_the_path_is_empty():
    whole = {"op": "replace", "path": "", "value": {"b": 2}}
    assert json_patch({"a": 1}, [{"op": "test", "path": "", "value": {"a": 1}}, whole]) == {"b": 2}


def test_json_patch_does_not_change_its_input():
    before = {"data": {"a": {"b": [1]}}}
    json_patch(
        before, [{"op": "add", "path": "/data/a/b/-", "value": 2}, {"op": "remove", "path": "/data/a"}]
    )
    assert before == {"data": {"a": {"b": [1]}}}


@pytest.mark.parametrize("index", ["0_0", " 0", "\N{ARABIC-INDIC DIGIT ZERO}", ""])
def test_json_patch_refuses_a_list_index_that_go_cannot_parse(index: str):
    with pytest.raises(StatusError, match="the server rejected our request"):
        json_patch({"list": [1]}, [{"op": "remove", "path": f"/list/{index}"}])


def test_json_patch_refuses_too_many_operations():
    with pytest.raises(StatusError) as refused:
        json_patch({}, [{"op": "test", "path": "/x"}] * 10_001)
    assert (refused.value.code, refused.value.message) == (
        413,
        "The allowed maximum operations in a JSON patch is 10000, got 10001",
    )
