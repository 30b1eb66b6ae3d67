"""Objects of other API versions, and objects stored under an earlier schema."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.crd.resources import resources_of
from devcluster.schema.node import Schema, parse
from devcluster.schema.versions import CustomVersions

TEXT = {"type": "string"}


def schema(**fields: Any) -> Schema:
    return parse({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})


def definition(generation: int) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {}}}
    names = {"kind": "Thing", "plural": "things"}
    return {
        "metadata": {"name": "things.example.com", "generation": generation, "resourceVersion": "7"},
        "spec": {"group": "example.com", "names": names, "scope": "Cluster", "versions": [version]},
    }


def test_tidy_drops_unknown_fields_and_adds_new_defaults():
    versions = CustomVersions({"example.com/v1": schema(new={**TEXT, "default": "x"})}, stale_until=5)
    obj = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {}, "spec": {"old": 1}}

    versions.tidy(obj)

    assert obj["spec"] == {"new": "x"}
    assert (versions.is_stale(5), versions.is_stale(6)) == (True, False)


def test_are_alike_is_true_for_versions_with_equal_schemas():
    schemas = {"v1": schema(a=TEXT), "v2": schema(a=TEXT), "v3": schema(b=TEXT)}
    versions = CustomVersions(schemas, stale_until=0)
    assert versions.are_alike("v1", "v2")
    assert not versions.are_alike("v1", "v3")


@pytest.mark.parametrize(("generation", "stale"), [(1, False), (2, True)])
def test_custom_versions_are_stale_only_when_the_crd_has_changed(generation: int, stale: bool):
    (resource,) = resources_of(definition(generation))
    assert resource.custom_versions is not None
    assert resource.custom_versions.is_stale(7) is stale
    assert not resource.custom_versions.is_stale(8)
