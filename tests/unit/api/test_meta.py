from __future__ import annotations

import json
from typing import Any

import pytest

from apis.cache.v1.memcached import Memcached, MemcachedSpec
from manager.api import ObjectMeta, OwnerReference, controller_of, controller_reference, is_controlled_by

OWNER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "name": "p",
    "uid": "1",
    "controller": True,
    "blockOwnerDeletion": True,
}


def test_object_meta_omits_empty_fields_on_the_wire():
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
def test_object_meta_writes_what_it_has_read(wire: dict[str, Any]):
    assert ObjectMeta.model_validate_json(json.dumps(wire)).to_wire() == wire


def test_object_meta_writes_an_owner_added_in_place():
    meta = ObjectMeta(name="a")
    meta.owner_references.append(OwnerReference.model_validate(OWNER))
    meta.labels["l"] = "v"
    assert meta.to_wire() == {"name": "a", "labels": {"l": "v"}, "ownerReferences": [OWNER]}


CHILD = ObjectMeta(name="c", namespace="n")


def memcached(uid: str) -> Memcached:
    return Memcached(metadata=ObjectMeta(name="m", namespace="n", uid=uid), spec=MemcachedSpec(size=1))


def reference(uid: str, *, controller: bool | None) -> OwnerReference:
    return OwnerReference(api_version="v1", kind="Pod", name="p", uid=uid, controller=controller)


def test_controller_of_returns_the_owner_marked_as_controller():
    mine = reference("2", controller=True)
    others = [reference("1", controller=None), reference("3", controller=False)]
    assert controller_of(ObjectMeta(owner_references=[others[0], mine, others[1]])) is mine
    assert controller_of(ObjectMeta(owner_references=others)) is None
    assert controller_of(ObjectMeta()) is None


def test_controller_reference_names_the_owner_and_blocks_its_deletion():
    assert controller_reference(memcached("1"), CHILD).to_wire() == {
        "apiVersion": "cache.example.com/v1",
        "kind": "Memcached",
        "name": "m",
        "uid": "1",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_controller_reference_refuses_an_owner_without_a_uid():
    with pytest.raises(ValueError, match="Memcached n/m has no UID"):
        controller_reference(memcached(""), CHILD)


@pytest.mark.parametrize(
    ("namespace", "where"), [("other", "is in namespace other"), ("", "is in no namespace")]
)
def test_controller_reference_refuses_an_owner_from_another_namespace(namespace: str, where: str):
    with pytest.raises(ValueError, match=f"Memcached n/m cannot own c, which {where}"):
        controller_reference(memcached("1"), ObjectMeta(name="c", namespace=namespace))


def test_is_controlled_by_compares_the_uid():
    child = ObjectMeta(owner_references=[controller_reference(memcached("1"), CHILD)])
    assert is_controlled_by(child, memcached("1"))
    assert not is_controlled_by(child, memcached("2"))
    assert not is_controlled_by(ObjectMeta(), memcached("1"))
