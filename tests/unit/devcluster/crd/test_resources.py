from __future__ import annotations

from typing import Any

import pytest

from devcluster.api.bodies import check_kind
from devcluster.crd.json_path import find
from devcluster.crd.resources import check_embedded, resources_of
from devcluster.errors import StatusError
from devcluster.http_call import User
from devcluster.kinds.registry import Registry
from devcluster.kinds.strategy import Context
from devcluster.schema.node import parse
from devcluster.storage import Store


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
    assert resource.custom_versions.is_stale(7) is stale
    assert not resource.custom_versions.is_stale(8)


def test_custom_object_generation_increases_when_a_nested_value_changes_from_1_to_true():
    (resource,) = resources_of(definition(1))
    context = Context(store=Store(), now="2026-01-01T00:00:00Z", user=User("u"))
    generations = []
    for value in (1, True):
        new: dict[str, Any] = {"metadata": {}, "spec": {"list": [value]}}
        old: dict[str, Any] = {"metadata": {"generation": 1}, "spec": {"list": [1]}}
        resource.strategy.prepare_update(new, old, context)
        generations.append(new["metadata"]["generation"])
    assert generations == [1, 2]


def test_json_path_find_returns_an_empty_list_when_the_path_is_invalid():
    assert find({"spec": {"size": 3}}, ".spec[") == []


@pytest.mark.parametrize(
    ("path", "found"),
    [(".l[0:3:0]", []), (".l[0:3:2]", [1, 3]), (".l[-:2]", []), (f".l[{'9' * 5000}]", [])],
)
def test_json_path_find_accepts_every_index_and_slice(path: str, found: list[int]):
    assert find({"l": [1, 2, 3]}, path) == found


def test_check_embedded_refuses_a_field_of_the_wrong_type():
    schema = parse(
        {"type": "object", "properties": {"e": {"type": "object", "x-kubernetes-embedded-resource": True}}}
    )
    (error,) = check_embedded({"e": {"apiVersion": 5, "kind": "X"}}, schema)
    assert str(error) == "e.apiVersion: Invalid value: 5: must be a string"


@pytest.mark.parametrize("metadata", [5, "x", {"name": 5}])
def test_check_kind_refuses_another_kind_with_metadata_of_the_wrong_type(metadata: Any):
    (resource,) = resources_of(definition(1))
    document = {"apiVersion": "example.com/v1", "kind": "Other", "metadata": metadata}
    with pytest.raises(StatusError, match=r'"" is invalid: kind: '):
        check_kind(document, resource, Registry())
