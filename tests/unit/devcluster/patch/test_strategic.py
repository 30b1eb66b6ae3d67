"""Strategic merge patches that no recording of a real server contains."""

from __future__ import annotations

import copy

from devcluster.patch import strategic_merge_patch
from devcluster.types import schema_for
from tests.support.effort import Effort

POD = schema_for("", "v1", "Pod")


def test_strategic_merge_patch_does_not_change_its_arguments():
    live = {"metadata": {"finalizers": ["a/a", "b/b"]}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    patch = {"metadata": {"$setElementOrder/finalizers": ["b/b"]}, "spec": {"containers": [{"name": "a"}]}}
    before = copy.deepcopy((live, patch))
    strategic_merge_patch(live, patch, POD)
    assert (live, patch) == before


def test_strategic_merge_patch_of_long_lists_is_fast():
    many = [f"example.org/{number}" for number in range(20_000)]
    with Effort() as spent:
        patched = strategic_merge_patch(
            {"metadata": {"finalizers": many[:10_000]}}, {"metadata": {"finalizers": many}}, POD
        )
    assert sorted(patched["metadata"]["finalizers"]) == sorted(many)
    assert spent.units < 100
