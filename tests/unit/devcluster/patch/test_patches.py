"""JSON patches that no recording of a real server contains."""

from __future__ import annotations

import pytest

from devcluster.errors import StatusError
from devcluster.patch import json_patch
from devcluster.patch.json_patch import MAX_COPIED


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


def test_json_patch_refuses_copies_of_more_than_3_mib():
    copy = {"op": "copy", "from": "/text", "path": "/copied"}
    document = {"text": "<\u2028é" * 1000}  # Go escapes the first two characters
    most = MAX_COPIED // 14_002
    assert json_patch(document, [copy] * most)["copied"] == document["text"]
    for copies in ([copy] * (most + 1), [{"op": "copy", "from": "/text", "path": "/text/x"}]):
        with pytest.raises(StatusError, match="the server rejected our request") as refused:
            json_patch(document, copies)
        assert refused.value.code == 422


def test_json_patch_is_refused_before_nested_copies_fill_the_memory():
    double = {"op": "copy", "from": "/list", "path": "/list/-"}
    with pytest.raises(StatusError, match="the server rejected our request"):
        json_patch({"list": ["x" * 1000]}, [double] * 40)
