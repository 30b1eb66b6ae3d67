"""Owner references: the client leaves foreign objects alone, and adds no invalid owner."""

from __future__ import annotations

from typing import Any

import pytest

from apis.cache.v1.memcached import Memcached
from manager.api import ObjectMeta, OwnerReference
from manager.client import Client, OwnedByOther
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import Namespace
from tests.support.scripted_wire import Reply, ScriptedWire

pytestmark = pytest.mark.virtual_time
PATH = "/apis/apps/v1/namespaces/team/deployments/cache"
RESOURCES = {"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]}

OWNER = Memcached.model_validate(
    {"metadata": {"name": "cache", "namespace": "team", "uid": "new"}, "spec": {"size": 1}}
)


def reference(name: str, uid: str, **more: Any) -> dict[str, Any]:
    named = {"apiVersion": "cache.example.com/v1", "kind": "Memcached", "name": name, "uid": uid}
    return named | more


@pytest.mark.parametrize(
    ("owner", "message", "controller"),
    [
        (
            reference("other", "other", controller=True),
            "Deployment cache already exists and belongs to Memcached other",
            "other",
        ),
        (
            reference("cache", "old", controller=True),
            "Deployment cache already exists and belongs to Memcached cache",
            "old",
        ),
        (reference("cache", "new"), "Deployment cache already exists and was created by somebody else", None),
    ],
    ids=["another", "an earlier one of the name", "an owner that is not the controller"],
)
async def test_apply_refuses_an_object_that_its_owner_does_not_control(
    client: Client, wire: ScriptedWire, owner: dict[str, Any], message: str, controller: str | None
):
    wire.on("GET", "/apis/apps/v1", Reply.json(RESOURCES))
    metadata = {"name": "cache", "namespace": "team", "uid": "theirs", "ownerReferences": [owner]}
    wire.on("GET", PATH, Reply.json({"metadata": metadata, "spec": {}}))
    wanted = Deployment(metadata=ObjectMeta(name="cache", namespace="team"), spec={"replicas": 1})
    with pytest.raises(OwnedByOther) as refused:
        await client.apply(wanted, owner=OWNER)
    assert str(refused.value) == message
    assert (refused.value.controller and refused.value.controller.uid) == controller
    assert {sent.method for sent in wire.requests} == {"GET"}


async def test_apply_refuses_an_owner_in_another_namespace_without_a_request(
    client: Client, wire: ScriptedWire
):
    elsewhere = Deployment(metadata=ObjectMeta(name="cache", namespace="other"), spec={"replicas": 1})
    with pytest.raises(
        ValueError, match="Memcached team/cache cannot own cache, which is in namespace other"
    ):
        await client.apply(elsewhere, owner=OWNER)
    assert wire.requests == []


@pytest.mark.parametrize("write", ["create", "update", "patch", "apply"])
async def test_client_refuses_a_namespaced_owner_of_a_cluster_scoped_object(
    client: Client, wire: ScriptedWire, write: str
):
    served = {"resources": [{"name": "memcacheds", "kind": "Memcached", "namespaced": True}]}
    wire.on("GET", "/apis/cache.example.com/v1", Reply.json(served))
    wire.on("GET", "/apis/unknown.example.com/v1", Reply.status(404, "NotFound"))
    child = Namespace.decode(b'{"metadata": {"name": "child", "uid": "1", "resourceVersion": "1"}}')
    unknown = reference("cache", "1", apiVersion="unknown.example.com/v1")
    owners = [OwnerReference.model_validate(each) for each in (unknown, reference("cache", "new"))]
    child.metadata.owner_references.extend(owners)
    with pytest.raises(
        ValueError, match="Memcached cache cannot own Namespace child, which is in no namespace"
    ):
        await getattr(client, write)(child)
    assert {sent.method for sent in wire.requests} == {"GET"}
