"""Field managers in cases that a sequence of recorded writes does not show."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from devcluster.patch import Write, apply, in_versions, parent_entries, record_update, scale_entries
from devcluster.schema.node import Schema, parse

NOW = "2026-01-31T12:00:00Z"
LATER = "2026-01-31T12:00:05Z"
API = "example.com/v1"
TEXT = {"type": "string"}


def schema(*, granular: bool) -> Schema:
    """Return the schema of a kind with granular or atomic lists and maps."""
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


def thing(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": API, "kind": "Thing", "metadata": {"name": "t", **metadata}, "spec": spec}


def owned(obj: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])}


def write(manager: str, now: str, **more: Any) -> Write:
    common: dict[str, Any] = {"schema": schema(granular=True), "api_version": API}
    return Write(manager=manager, now=now, **{**common, **more})


def applied(
    live: dict[str, Any] | None, spec: dict[str, Any], manager: str = "applier", **more: Any
) -> dict[str, Any]:
    return apply(live, thing(spec), write(manager, NOW, **more), force=False)


def recorded(new: dict[str, Any], old: dict[str, Any] | None, manager: str = "m", **more: Any) -> None:
    record_update(new, old, write(manager, **{"now": LATER, **more}))


def test_write_without_a_change_keeps_managed_fields_entries_and_their_times():
    old = thing({"size": 1})
    recorded(old, None, "a", now=NOW)
    new = copy.deepcopy(old)

    recorded(new, old, "b")

    assert new == old


def test_managed_fields_own_a_list_or_map_as_a_whole_when_it_became_atomic():
    live = applied(None, {"list": [{"name": "a", "v": "1"}], "map": {"k": "v"}})
    new = copy.deepcopy(live)
    new["spec"]["size"] = 1

    recorded(new, live, "other", schema=schema(granular=False))

    assert owned(new) == {
        "applier": {"f:spec": {"f:list": {}, "f:map": {}}},
        "other": {"f:spec": {"f:size": {}}},
    }


def test_apply_does_not_change_its_arguments():
    live = applied(None, {"list": [{"name": "a"}], "map": {"a": "b"}})
    config = thing({"list": [{"name": "b"}]})
    before = copy.deepcopy((live, config))

    apply(live, config, write("applier", LATER), force=True)

    assert (live, config) == before


def renamed(obj: dict[str, Any], api_version: str) -> tuple[dict[str, Any], Schema] | None:
    """Version v2 calls the size `count`."""
    if api_version not in {API, "example.com/v2"}:
        return None
    preserve = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    kind = parse({"type": "object", "properties": {"spec": preserve}})
    converted = {**obj, "apiVersion": api_version}
    if obj.get("spec"):
        names = {"size": "count"} if api_version == "example.com/v2" else {"count": "size"}
        converted["spec"] = {names.get(name, name): value for name, value in obj["spec"].items()}
    return converted, kind


@pytest.mark.parametrize(("spec", "left"), [({"size": 2}, {"size": 2}), ({}, {"map": {"x": "y"}})])
def test_managed_fields_are_compared_in_the_version_in_which_they_were_applied(
    spec: dict[str, Any], left: dict[str, Any]
):
    first = {**thing({"count": 1}), "apiVersion": "example.com/v2"}
    kind = renamed(first, "example.com/v2")
    assert kind is not None
    second = apply(
        None, first, write("applier", NOW, schema=kind[1], api_version="example.com/v2"), force=False
    )
    second = {**second, "apiVersion": API, "spec": {"size": 1, **({"map": {"x": "y"}} if not spec else {})}}

    result = apply(second, thing(spec), write("applier", LATER, convert=renamed), force=False)

    assert result["spec"] == left
    (entry,) = result["metadata"]["managedFields"]
    assert (entry["apiVersion"], entry["fieldsV1"]) == (API, {"f:spec": {"f:size": {}} if spec else {}})


def test_managed_fields_are_dropped_when_their_version_lacks_a_field():
    live = applied(None, {"size": 1})
    live["metadata"]["managedFields"][0]["apiVersion"] = "example.com/v2"
    new = copy.deepcopy(live)
    new["spec"]["size"] = 2
    other = parse({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": TEXT}}}})

    recorded(new, live, convert=in_versions({API: schema(granular=True), "example.com/v2": other}))

    assert "managedFields" not in new["metadata"]


def test_apply_without_its_former_only_label_keeps_the_metadata_of_the_server():
    live = apply(None, thing({"size": 1}, labels={"a": "b"}), write("applier", NOW), force=False)
    live["metadata"]["uid"] = "some-uid"

    result = apply(live, thing({"size": 1}), write("applier", NOW), force=False)

    assert {**result["metadata"], "managedFields": None} == {
        "name": "t",
        "uid": "some-uid",
        "managedFields": None,
    }


def test_managed_fields_entries_of_an_unserved_version_are_dropped():
    live = applied(None, {"size": 1})
    live["metadata"]["managedFields"][0]["apiVersion"] = "example.com/v0"
    new = copy.deepcopy(live)
    new["spec"]["size"] = 2

    recorded(new, live, convert=renamed)

    assert owned(new) == {"m": {"f:spec": {"f:size": {}}}}


def test_managed_fields_are_dropped_when_a_list_item_has_no_key():
    new = thing({"list": [{"v": "no name"}]})

    recorded(new, None)

    assert "managedFields" not in new["metadata"]


PATHS = {"apps/v1": ("spec", "replicas")}
TIME = "2026-01-31T12:00:00Z"


def entry(manager: str, fields: Any, *, operation: str = "Update", **more: str) -> dict[str, Any]:
    facts = {"manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": TIME}
    return {**facts, "fieldsType": "FieldsV1", "fieldsV1": fields, **more}


REPLICAS = {"f:spec": {"f:replicas": {}}}
CREATOR = entry("creator", {"f:spec": {"f:paused": {}, "f:replicas": {}}})
OTHER = entry("other", {"f:spec": {"f:paused": {}}})


def test_parent_entries_keep_the_replicas_of_an_applier_when_scale_is_unchanged():
    applier = entry("applier", {"f:spec": {"f:paused": {}, "f:replicas": {}}}, operation="Apply")

    entries = parent_entries(
        [applier], scale_entries([applier], PATHS), PATHS, api_version="apps/v1", custom=False
    )

    assert entries == [applier]


def test_parent_entries_drop_entries_of_an_unserved_version():
    old = {**OTHER, "apiVersion": "apps/v1beta1"}

    assert parent_entries([old], [], PATHS, api_version="apps/v1", custom=False) == []
