"""A kind with two versions and a conversion webhook, which is now there and now not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.versions.parcels import FRAGILE, NEW, OLD, Parcels
from tests.integration.versions.watched import Watched
from tests.support.api_access import ApiFailure

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.contract


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def resource_version(obj: dict[str, Any]) -> str:
    version: str = obj["metadata"]["resourceVersion"]
    return version


def names(items: list[dict[str, Any]]) -> list[str]:
    return [each["metadata"]["name"] for each in items]


def read(parcels: Parcels, version: str, accept: str, **query: str) -> Any:
    return json.loads(parcels.plane.api.request("GET", parcels.path(version), accept=accept, query=query))


def refused(status: int, call: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(ApiFailure) as failure:
        call(*arguments, **options)
    assert failure.value.status == status, failure.value
    return str(failure.value)


def stored_versions(parcels: Parcels) -> list[str]:
    versions: list[str] = parcels.plane.api.get(parcels.definition_path)["status"]["storedVersions"]
    return versions


def trim(parcels: Parcels, *versions: str) -> None:
    status = {"status": {"storedVersions": list(versions)}}
    parcels.plane.api.patch(f"{parcels.definition_path}/status", status)


# What each version shows.


def test_each_version_shows_what_was_written_in_the_other(parcels: Parcels) -> None:
    parcels.create(OLD, "a", size="3x4")
    parcels.create(NEW, "b", width=1, height=2, fragile=True)
    shown: dict[str, list[Any]] = {}
    for version in (OLD, NEW):
        shown[version] = [parcels.get(version, name)["spec"] for name in ("a", "b")]
        assert [each["spec"] for each in parcels.list(version)] == shown[version]
        assert {each["apiVersion"] for each in parcels.list(version)} == {f"{parcels.group}/{version}"}
    assert shown[OLD] == [{"size": "3x4", "via": "road"}, {"size": "1x2", "via": "road"}]
    assert shown[NEW] == [
        {"width": 3, "height": 4, "via": "road"},
        {"width": 1, "height": 2, "via": "road", "fragile": True},
    ]
    assert parcels.get(OLD, "b")["metadata"]["annotations"] == {FRAGILE: "true"}
    assert "annotations" not in parcels.get(NEW, "b")["metadata"]


def test_an_object_that_is_stored_as_it_is_wanted_is_never_sent(parcels: Parcels) -> None:
    parcels.create(OLD, "a", size="3x4")
    parcels.patch(OLD, "a", {"spec": {"note": "x"}})
    parcels.get(OLD, "a")
    parcels.list(OLD)
    assert all(each["desiredAPIVersion"].endswith(NEW) for each in parcels.webhook.conversions)


def test_a_read_of_one_object_asks_the_webhook_and_a_list_only_for_what_it_has_not_seen(
    parcels: Parcels,
) -> None:
    for name in "abc":
        parcels.create(OLD, name, size="3x4")
    parcels.list(NEW)
    parcels.webhook.forget()
    parcels.list(NEW)
    parcels.get(NEW, "a", resourceVersion="0")
    assert not parcels.webhook.conversions
    parcels.get(NEW, "a")
    assert names(parcels.webhook.converted()) == ["a"]


def test_what_conversion_does_to_the_metadata_shows_in_tables_and_in_metadata_alone(parcels: Parcels) -> None:
    parcels.create(NEW, "b", width=1, height=2, fragile=True)
    assert read(parcels, OLD, METADATA)["items"][0]["metadata"]["annotations"] == {FRAGILE: "true"}
    assert "annotations" not in read(parcels, NEW, METADATA)["items"][0]["metadata"]
    for version, column, cell in ((OLD, "Size", "1x2"), (NEW, "Width", "1")):
        table = read(parcels, version, TABLE, includeObject="Object")
        assert [each["name"] for each in table["columnDefinitions"]] == ["Name", column]
        (row,) = table["rows"]
        assert row["cells"] == ["b", cell]
        assert row["object"]["apiVersion"] == f"{parcels.group}/{version}"


def test_selectors_look_at_the_version_that_is_asked_for(parcels: Parcels) -> None:
    parcels.create(OLD, "a", size="3x4")
    parcels.create(NEW, "b", width=5, height=6)
    assert names(parcels.list(NEW, fieldSelector="spec.width=3")) == ["a"]
    assert names(parcels.list(OLD, fieldSelector="spec.size=5x6")) == ["b"]
    refused(400, parcels.list, OLD, fieldSelector="spec.width=3")


def test_a_watch_in_one_version_sees_writes_in_the_other(parcels: Parcels) -> None:
    start = resource_version(parcels.create(OLD, "before", size="1x1"))
    parcels.create(NEW, "a", width=1, height=2)
    watches = [
        Watched(parcels.plane, parcels.path(NEW), watch="true", resourceVersion=start),
        Watched(parcels.plane, parcels.path(OLD), watch="true", resourceVersion=start),
    ]
    with watches[0] as new, watches[1] as old:
        parcels.patch(OLD, "a", {"spec": {"size": "7x8"}})
        parcels.patch(NEW, "a", {"spec": {"height": 9}})
        parcels.plane.api.delete(parcels.path(OLD, "a"))
        kinds = ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
        assert [each["type"] for each in new.take(4)] == kinds
        assert [each["type"] for each in old.take(4)] == kinds
        assert [(each["object"]["spec"]["width"], each["object"]["spec"]["height"]) for each in new.seen] == [
            (1, 2),
            (7, 8),
            (7, 9),
            (7, 9),
        ]
        assert [each["object"]["spec"]["size"] for each in old.seen] == ["1x2", "7x8", "7x9", "7x9"]
        assert {each["object"]["apiVersion"] for each in new.seen} == {f"{parcels.group}/{NEW}"}


def test_a_streaming_list_has_all_objects_in_its_version_and_says_where_they_end(parcels: Parcels) -> None:
    parcels.create(OLD, "a", size="3x4")
    parcels.create(NEW, "b", width=1, height=2)
    streaming = {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    with Watched(parcels.plane, parcels.path(NEW), **streaming) as watch:
        a, b, end = watch.take(3)
        assert [a["object"]["spec"]["width"], b["object"]["spec"]["width"]] == [3, 1]
        assert end["type"] == "BOOKMARK"
        assert end["object"]["apiVersion"] == f"{parcels.group}/{NEW}"
        assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


# The rules of each version.


def test_defaults_and_pruning_are_those_of_the_version_that_is_written(parcels: Parcels) -> None:
    old = parcels.create(OLD, "a", size="3x4", width=5)
    assert old["spec"] == {"size": "3x4", "via": "road"}
    new = parcels.create(NEW, "b", width=1, height=2, size="3x4")
    # Stored in the old version, it gets that one's defaults as well.
    assert new["spec"] == {"width": 1, "height": 2, "via": "road", "fragile": False}
    # What was stored without a default of this version does not get it by being read.
    assert "fragile" not in parcels.get(NEW, "a")["spec"]


def test_schema_and_rules_are_those_of_the_version_that_is_written(parcels: Parcels) -> None:
    assert "spec.size in body should match" in refused(422, parcels.create, OLD, "a", size="big")
    assert "must lie on its long side" in refused(422, parcels.create, NEW, "a", width=4, height=3)
    parcels.create(OLD, "a", size="4x3")
    assert parcels.get(NEW, "a")["spec"]["width"] == 4
    assert "must lie on its long side" in refused(422, parcels.patch, NEW, "a", {"spec": {"height": 2}})


def test_a_deprecated_version_warns_and_names_the_better_one(parcels: Parcels) -> None:
    parcels.create(OLD, "a", size="3x4")
    resource, group = f"parcels.{OLD}.{parcels.group}", parcels.group
    shown = parcels.plane.kubectl("-n", parcels.namespace, "get", resource, "a")
    warning = f"Warning: {group}/{OLD} Parcel is deprecated; use {group}/{NEW} Parcel\n"
    assert shown.stderr == warning
    shown = parcels.plane.kubectl("-n", parcels.namespace, "get", f"parcels.{NEW}.{group}", "a")
    assert shown.stderr == ""


def test_scale_and_status_go_through_conversion(parcels: Parcels) -> None:
    api = parcels.plane.api
    parcels.create(NEW, "a", width=3, height=4, copies=2)
    for version in (OLD, NEW):
        scale = api.get(parcels.path(version, "a", "scale"))
        assert scale["spec"] == {"replicas": 2}
    api.patch(parcels.path(NEW, "a", "scale"), {"spec": {"replicas": 5}})
    assert parcels.get(OLD, "a")["spec"]["copies"] == 5
    # The status has a name of its own in each version.
    api.patch(parcels.path(NEW, "a", "status"), {"status": {"halts": 3}})
    assert parcels.get(OLD, "a")["status"] == {"stops": 3}
    assert api.get(parcels.path(NEW, "a", "scale"))["status"] == {"replicas": 3}
    assert api.get(parcels.path(OLD, "a", "scale"))["status"] == {"replicas": 3}


# Which version is stored.


def test_a_write_that_changes_nothing_stores_an_object_in_the_present_version_once(parcels: Parcels) -> None:
    for name in ("patched", "put", "status", "dry"):
        parcels.create(NEW, name, width=3, height=4)
    parcels.store_as(NEW)
    before = {name: parcels.get(NEW, name) for name in ("patched", "put", "status", "dry")}
    status = parcels.path(NEW, "status", "status")
    writes: dict[str, Callable[[], Any]] = {
        "patched": lambda: parcels.patch(NEW, "patched", {}),
        "put": lambda: parcels.put(NEW, "put", parcels.get(NEW, "put")),
        "status": lambda: parcels.plane.api.patch(status, {}),
    }
    for name, write in writes.items():
        first = write()
        assert resource_version(first) != resource_version(before[name])
        assert first["metadata"].get("generation") == before[name]["metadata"]["generation"]
        assert resource_version(write()) == resource_version(first)
        parcels.webhook.forget()
        parcels.get(NEW, name)
        # The server's cache of the other version may have its own conversion of the write still to do.
        assert all(each["desiredAPIVersion"].endswith(OLD) for each in parcels.webhook.conversions)
    parcels.patch(NEW, "dry", {}, dryRun="All")
    assert resource_version(parcels.get(NEW, "dry")) == resource_version(before["dry"])


def test_a_write_that_changes_nothing_does_so_in_whichever_version_it_comes(parcels: Parcels) -> None:
    parcels.create(NEW, "a", width=1, height=2)
    parcels.store_as(NEW)
    before = parcels.get(OLD, "a")
    first = parcels.patch(OLD, "a", {})
    assert resource_version(first) != resource_version(before)
    assert resource_version(parcels.patch(OLD, "a", {})) == resource_version(first)


def test_stored_versions_grow_with_the_storage_version_and_are_trimmed_by_the_status_alone(
    parcels: Parcels,
) -> None:
    assert stored_versions(parcels) == [OLD]
    parcels.store_as(NEW)
    assert stored_versions(parcels) == [OLD, NEW]
    parcels.plane.api.patch(parcels.definition_path, {"status": {"storedVersions": [NEW]}})
    assert stored_versions(parcels) == [OLD, NEW]
    trim(parcels, NEW)
    assert stored_versions(parcels) == [NEW]


def test_a_version_in_which_there_may_be_objects_must_stay(parcels: Parcels) -> None:
    parcels.store_as(NEW)
    definition = parcels.plane.api.get(parcels.definition_path)
    definition["spec"]["versions"] = [each for each in definition["spec"]["versions"] if each["name"] == NEW]

    def drop() -> str:
        return parcels.plane.api.request("PUT", parcels.definition_path, body=definition)

    wrong = f'status.storedVersions[0]: Invalid value: \\"{OLD}\\": missing from spec.versions; {OLD} was '
    assert wrong in refused(422, drop)
    trim(parcels, NEW)
    definition["metadata"].pop("resourceVersion")
    definition["metadata"]["resourceVersion"] = resource_version(
        parcels.plane.api.get(parcels.definition_path)
    )
    definition["status"]["storedVersions"] = [NEW]
    drop()


# Ownership of fields.


def managers(obj: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    """By manager, the version of its entry and what it owns of the spec."""
    return {
        each["manager"]: (each["apiVersion"].rpartition("/")[2], sorted(each["fieldsV1"].get("f:spec", {})))
        for each in obj["metadata"]["managedFields"]
    }


def test_two_managers_that_apply_in_two_versions_keep_what_is_theirs(parcels: Parcels) -> None:
    parcels.apply(OLD, "a", "one", size="3x4", note="n")
    shared = parcels.apply(NEW, "a", "two", width=3, fragile=True)
    assert managers(shared) == {
        "one": (OLD, ["f:note", "f:size"]),
        "two": (NEW, ["f:fragile", "f:width"]),
    }
    assert managers(parcels.get(OLD, "a")) == managers(shared)
    # A conflict is named in the version of the one who owns the field.
    text = refused(409, parcels.apply, NEW, "a", "two", width=5, height=9, fragile=True)
    assert 'conflict with \\"one\\": .spec.size' in text
    parcels.apply(NEW, "a", "two", force=True, width=5, height=9, fragile=True)
    text = refused(409, parcels.apply, OLD, "a", "one", size="3x4", note="n")
    assert 'conflicts with \\"two\\":\\n- .spec.height\\n- .spec.width' in text
    kept = parcels.apply(OLD, "a", "one", note="m")
    assert kept["spec"] == {"size": "5x9", "note": "m", "via": "road"}
    assert managers(kept) == {"one": (OLD, ["f:note"]), "two": (NEW, ["f:fragile", "f:height", "f:width"])}


def test_what_nobody_applies_any_more_goes_in_both_versions(parcels: Parcels) -> None:
    parcels.apply(OLD, "a", "one", size="3x4", note="n")
    parcels.apply(NEW, "a", "two", lines=["x"], fragile=True)
    assert parcels.get(OLD, "a")["metadata"]["annotations"] == {FRAGILE: "true"}
    parcels.apply(NEW, "a", "two", lines=["x"])
    assert parcels.get(NEW, "a")["spec"]["fragile"] is False
    parcels.apply(OLD, "a", "one", size="3x4")
    assert "note" not in parcels.get(NEW, "a")["spec"]


def test_a_manager_that_moves_to_the_new_version_has_one_entry(parcels: Parcels) -> None:
    parcels.apply(OLD, "a", "one", size="3x4", note="n")
    moved = parcels.apply(NEW, "a", "one", width=3, height=4, note="n")
    assert managers(moved) == {"one": (NEW, ["f:height", "f:note", "f:width"])}
    assert resource_version(parcels.apply(NEW, "a", "one", width=3, height=4, note="n")) == resource_version(
        moved
    )
