"""Field managers after writes that no recording of a real server contains."""

from __future__ import annotations

import copy
from typing import Any

from devcluster.patch import Write, apply, parent_entries, record_update, scale_entries
from devcluster.schema.node import Schema, parse

NOW = "2026-01-31T12:00:00Z"
API = "example.com/v1"
TEXT = {"type": "string"}


def schema(*, granular: bool) -> Schema:
    """Return a schema with a list and a map, which are granular, or atomic if `granular` is false."""
    item = {"type": "object", "properties": {"name": TEXT, "v": TEXT}}
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    fields = {
        "list": {"type": "array", "items": item, **(keyed if granular else {})},
        "map": {
            "type": "object",
            "additionalProperties": TEXT,
            "x-kubernetes-map-type": "granular" if granular else "atomic",
        },
        "size": {"type": "integer"},
    }
    return parse({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})


def write(manager: str, *, granular: bool = True) -> Write:
    return Write(manager=manager, now=NOW, schema=schema(granular=granular), api_version=API)


def thing(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": API, "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}


def test_managed_fields_own_the_whole_list_or_map_after_it_becomes_atomic():
    first = thing(list=[{"name": "a", "v": "1"}], map={"k": "v"})
    live = apply(None, first, write("applier"), force=False)
    new = copy.deepcopy(live)
    new["spec"]["size"] = 1
    record_update(new, live, write("other", granular=False))
    assert {entry["manager"]: entry["fieldsV1"] for entry in new["metadata"]["managedFields"]} == {
        "applier": {"f:spec": {"f:list": {}, "f:map": {}}},
        "other": {"f:spec": {"f:size": {}}},
    }


def test_field_is_owned_by_the_manager_that_changes_its_nested_value_from_1_to_true():
    live = thing(map={"a": 1}, list=[{"name": "a", "v": 0}])
    record_update(live, None, write("creator"))
    new = thing(map={"a": True}, list=[{"name": "a", "v": False}])
    new["metadata"]["managedFields"] = live["metadata"]["managedFields"]
    record_update(new, live, write("other"))
    (theirs,) = (each for each in new["metadata"]["managedFields"] if each["manager"] == "other")
    assert theirs["fieldsV1"] == {
        "f:spec": {"f:map": {"f:a": {}}, "f:list": {'k:{"name":"a"}': {"f:v": {}}}},
    }


def test_server_side_apply_does_not_change_its_arguments():
    live = apply(None, thing(list=[{"name": "a"}], map={"a": "b"}), write("applier"), force=False)
    config = thing(list=[{"name": "b"}])
    before = copy.deepcopy((live, config))
    apply(live, config, write("applier"), force=True)
    assert (live, config) == before


def test_object_has_no_managed_fields_when_an_item_of_a_keyed_list_lacks_its_key():
    new = thing(list=[{"v": "no name"}])
    record_update(new, None, write("m"))
    assert "managedFields" not in new["metadata"]


PATHS = {"apps/v1": ("spec", "replicas")}


def entry(manager: str, fields: Any, *, operation: str = "Update", **more: str) -> dict[str, Any]:
    facts = {"manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": NOW}
    return {**facts, "fieldsType": "FieldsV1", "fieldsV1": fields, **more}


def test_scale_write_without_a_change_keeps_the_managed_fields_of_the_object():
    applier = entry("applier", {"f:spec": {"f:paused": {}, "f:replicas": {}}}, operation="Apply")
    entries = parent_entries(
        [applier], scale_entries([applier], PATHS), PATHS, api_version="apps/v1", custom=False
    )
    assert entries == [applier]


def test_scale_write_drops_managed_fields_entries_of_an_unserved_api_version():
    old = entry("other", {"f:spec": {"f:paused": {}}}, apiVersion="apps/v1beta1")
    assert parent_entries([old], [], PATHS, api_version="apps/v1", custom=False) == []
