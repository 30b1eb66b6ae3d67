"""The scale subresource shares the ownership of one field with its parent."""

from __future__ import annotations

from typing import Any

from devcluster.patch import parent_entries, scale_entries

PATHS = {"apps/v1": ("spec", "replicas")}
TIME = "2026-01-31T12:00:00Z"


def entry(manager: str, fields: Any, *, operation: str = "Update", **more: str) -> dict[str, Any]:
    facts = {"manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": TIME}
    return {**facts, "fieldsType": "FieldsV1", "fieldsV1": fields, **more}


REPLICAS = {"f:spec": {"f:replicas": {}}}
CREATOR = entry("creator", {"f:spec": {"f:paused": {}, "f:replicas": {}}})
OTHER = entry("other", {"f:spec": {"f:paused": {}}})


def test_the_scale_shows_those_who_manage_the_replicas():
    shown = scale_entries([CREATOR, OTHER], PATHS)

    assert shown == [{**CREATOR, "apiVersion": "autoscaling/v1", "fieldsV1": REPLICAS}]


def test_who_writes_the_scale_takes_the_replicas_from_the_parent():
    scaler = {**entry("scaler", REPLICAS, subresource="scale"), "apiVersion": "autoscaling/v1"}

    entries = parent_entries([CREATOR, OTHER], [scaler], PATHS, api_version="apps/v1", custom=False)

    without_time = {**scaler, "apiVersion": "apps/v1"}
    del without_time["time"]  # the real server loses it
    assert entries == [without_time, entry("creator", {"f:spec": {"f:paused": {}}}), OTHER]


def test_who_applied_the_replicas_keeps_them_when_the_scale_does():
    applier = entry("applier", {"f:spec": {"f:paused": {}, "f:replicas": {}}}, operation="Apply")

    entries = parent_entries(
        [applier], scale_entries([applier], PATHS), PATHS, api_version="apps/v1", custom=False
    )

    assert entries == [applier]


def test_entries_of_a_version_that_is_gone_go():
    old = {**OTHER, "apiVersion": "apps/v1beta1"}

    assert parent_entries([old], [], PATHS, api_version="apps/v1", custom=False) == []
