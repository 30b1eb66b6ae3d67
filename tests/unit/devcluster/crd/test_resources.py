from __future__ import annotations

from typing import Any

import pytest

from devcluster.crd.json_path import find
from devcluster.crd.resources import resources_of


def definition(generation: int) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {}}}
    names = {"kind": "Thing", "plural": "things"}
    return {
        "metadata": {"name": "things.example.com", "generation": generation, "resourceVersion": "7"},
        "spec": {"group": "example.com", "names": names, "scope": "Cluster", "versions": [version]},
    }


@pytest.mark.parametrize(("generation", "stale"), [(1, False), (2, True)])
def test_is_stale_returns_true_for_objects_written_before_the_crd_changed(generation: int, stale: bool):
    (resource,) = resources_of(definition(generation))
    assert resource.custom_versions is not None
    assert resource.custom_versions.is_stale(7) is stale
    assert not resource.custom_versions.is_stale(8)


def test_json_path_find_returns_an_empty_list_when_the_path_is_invalid():
    assert find({"spec": {"size": 3}}, ".spec[") == []
