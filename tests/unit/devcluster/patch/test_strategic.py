"""Strategic merge patches: what they do, and how those that make no sense are refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from devcluster.errors import StatusError
from devcluster.patch import strategic_merge_patch
from devcluster.types import schema_for
from tests.support.effort import Effort

POD = schema_for("", "v1", "Pod")
LIVE = {
    "metadata": {"name": "p", "finalizers": ["a/a", "b/b", "c/c"], "labels": {"x": "1", "y": "2"}},
    "spec": {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "old"}],
        "containers": [{"name": "a", "image": "a:1", "args": ["x", "y"]}, {"name": "b", "image": "b:1"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}


NEW = {"name": "n", "image": "n"}
HOST_PATH = {"hostPath": {"path": "/"}}


@pytest.mark.parametrize(
    ("patch", "path", "expected"),
    [
        # A new item goes before those that the patch does not mention, unless an order says otherwise.
        ({"spec": {"containers": [NEW]}}, ("spec", "containers"), [NEW, *LIVE["spec"]["containers"]]),
        (
            {"spec": {"$setElementOrder/containers": [{"name": "n"}, {"name": "b"}], "containers": [NEW]}},
            ("spec", "containers"),
            [NEW, *LIVE["spec"]["containers"]],
        ),
        (
            {"spec": {"containers": [{"$patch": "delete", "name": "a"}]}},
            ("spec", "containers"),
            LIVE["spec"]["containers"][1:],
        ),
        (
            {"spec": {"containers": [{"$patch": "replace"}, {"name": "r"}]}},
            ("spec", "containers"),
            [{"name": "r"}],
        ),
        ({"metadata": {"labels": {"$patch": "replace", "z": "3"}}}, ("metadata", "labels"), {"z": "3"}),
        ({"metadata": {"labels": {"$patch": "delete"}}}, ("metadata", "labels"), {}),
        ({"metadata": {"labels": {"x": None}}}, ("metadata", "labels"), {"y": "2"}),
        (
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], **HOST_PATH}]}},
            ("spec", "volumes"),
            [{"name": "v", **HOST_PATH}],
        ),
        (
            {"spec": {"affinity": {"nodeAffinity": None, "podAffinity": {}}}},
            ("spec", "affinity"),
            {"podAffinity": {}},
        ),
        ({"spec": {"nodeSelector": "text"}}, ("spec", "nodeSelector"), "text"),
    ],
)
def test_strategic_merge_patch_follows_its_directives(
    patch: dict[str, Any], path: tuple[str, ...], expected: Any
):
    found: Any = strategic_merge_patch(LIVE, patch, POD)

    for step in path:
        found = found[step]
    assert found == expected


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ({"$patch": "bad"}, 500, "unknown patch type: bad in map: map[$patch:bad]"),
        ({"metadata": {"labels": {"$retainKeys": "x"}}}, 400, "invalid patch format of retainKeys"),
        (
            {"metadata": {"labels": {"$retainKeys": ["x"], "z": "1"}}},
            400,
            "invalid patch format of retainKeys",
        ),
        ({"metadata": {"$setElementOrder": []}}, 400, "invalid patch format of setElementOrder list"),
        ({"metadata": {"$deleteFromPrimitiveList": []}}, 400, "invalid patch format of primitive list"),
        (
            {"metadata": {"$setElementOrder/finalizers": "x"}},
            500,
            "expected a []interface {}, but received a string",
        ),
        (
            {"metadata": {"$setElementOrder/nope": ["x"]}},
            500,
            'unable to find api field in struct ObjectMeta for the json field "nope"',
        ),
        (
            {"metadata": {"finalizers": ["c/c", "a/a"], "$setElementOrder/finalizers": ["a/a", "c/c"]}},
            500,
            "The order in patch list:\n[c/c a/a]\n doesn't match $setElementOrder list:\n[a/a c/c]\n",
        ),
        (
            {"metadata": {"finalizers": [1]}},
            500,
            "list element types are not identical: [[a/a b/b c/c] [1]]",
        ),
        (
            {"spec": {"containers": [{"image": "x"}]}},
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            {"spec": {"containers": [{"$patch": "merge", "name": "a"}]}},
            500,
            "merging lists cannot yet be specified in the patch",
        ),
    ],
)
def test_invalid_strategic_patch_is_refused_with_the_message_of_a_real_server(
    patch: dict[str, Any], code: int, message: str
):
    with pytest.raises(StatusError) as refused:
        strategic_merge_patch(LIVE, patch, POD)

    assert (refused.value.code, refused.value.message) == (code, message)


def test_strategic_merge_patch_changes_neither_argument():
    patch = {"metadata": {"$setElementOrder/finalizers": ["b/b"]}, "spec": {"containers": [{"name": "a"}]}}
    before = copy.deepcopy((LIVE, patch))

    strategic_merge_patch(LIVE, patch, POD)

    assert (LIVE, patch) == before


def test_long_lists_take_no_long_time():
    many = [f"example.org/{number}" for number in range(20_000)]
    with Effort() as spent:
        patched = strategic_merge_patch(
            {"metadata": {"finalizers": many[:10_000]}}, {"metadata": {"finalizers": many}}, POD
        )
    assert sorted(patched["metadata"]["finalizers"]) == sorted(many)
    assert spent.units < 100
