from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from manager.api import ObjectMeta, OwnerReference

OWNER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "name": "p",
    "uid": "1",
    "controller": True,
    "blockOwnerDeletion": True,
}


def test_what_the_server_left_out_is_empty():
    meta = ObjectMeta.model_validate_json('{"name": "a"}')
    assert (meta.namespace, meta.uid, meta.resource_version, meta.generation) == ("", "", "", 0)
    assert (meta.labels, meta.annotations, meta.finalizers, meta.owner_references) == ({}, {}, [], [])
    assert meta.creation_timestamp is None
    assert meta.deletion_timestamp is None


def test_what_is_empty_is_left_out():
    assert ObjectMeta().to_wire() == {}
    assert ObjectMeta(name="a", labels={}, finalizers=[]).to_wire() == {"name": "a"}


@pytest.mark.parametrize(
    "wire",
    [
        {"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "7", "generation": 2},
        {"generateName": "a-", "labels": {"l": ""}, "annotations": {"n": "v"}, "finalizers": ["f/f"]},
        {"creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:06Z"},
        {"ownerReferences": [OWNER]},
        {"managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}], "deletionGracePeriodSeconds": 0},
    ],
)
def test_metadata_is_written_as_it_was_read(wire: dict[str, Any]):
    assert ObjectMeta.model_validate_json(json.dumps(wire)).to_wire() == wire


def test_timestamps_are_utc():
    meta = ObjectMeta.model_validate_json('{"creationTimestamp": "2026-01-02T03:04:05Z"}')
    assert meta.creation_timestamp == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_an_owner_added_in_place_is_written():
    meta = ObjectMeta(name="a")
    meta.owner_references.append(OwnerReference.model_validate(OWNER))
    meta.labels["l"] = "v"
    assert meta.to_wire() == {"name": "a", "labels": {"l": "v"}, "ownerReferences": [OWNER]}
