"""What belongs to somebody else is left alone, and nothing gets an owner that it cannot have."""

from __future__ import annotations

import random
from typing import Any

import pytest

from apis.cache.v1.memcached import Memcached
from manager.api import ObjectMeta, OwnerReference
from manager.api.apps_v1 import Deployment
from manager.api.core_v1 import Namespace
from manager.cache import Cache
from manager.client import Client, OwnedByOther
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.metrics import Metrics
from tests.support.scripted_wire import Reply, ScriptedWire

PATH = "/apis/apps/v1/namespaces/team/deployments/cache"
RESOURCES = {"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]}

OWNER = Memcached.model_validate(
    {"metadata": {"name": "cache", "namespace": "team", "uid": "new"}, "spec": {"size": 1}}
)


def client_on(wire: ScriptedWire) -> Client:
    metrics, rng = Metrics(), random.Random(1)
    transport = Transport(wire, metrics=metrics, rng=rng, user_agent="test")
    mapper = RestMapper(transport)
    cache = Cache(transport, mapper, field_manager="test", metrics=metrics, rng=rng)
    return Client(transport, mapper, cache, field_manager="test")


async def refusal(*owners: dict[str, Any]) -> OwnedByOther:
    """What comes of applying our Deployment over one with these owners; nothing may be written."""
    wire = ScriptedWire()
    wire.on("GET", "/apis/apps/v1", Reply.json(RESOURCES))
    metadata = {"name": "cache", "namespace": "team", "uid": "theirs", "ownerReferences": list(owners)}
    wire.on("GET", PATH, Reply.json({"metadata": metadata, "spec": {}}))
    client = client_on(wire)
    wanted = Deployment(metadata=ObjectMeta(name="cache", namespace="team"), spec={"replicas": 1})
    with pytest.raises(OwnedByOther) as refused:
        await client.apply(wanted, owner=OWNER)
    assert {sent.method for sent in wire.requests} == {"GET"}
    return refused.value


def reference(name: str, uid: str, **more: Any) -> dict[str, Any]:
    named = {"apiVersion": "cache.example.com/v1", "kind": "Memcached", "name": name, "uid": uid}
    return named | more


@pytest.mark.virtual_time
async def test_the_controller_of_another_owner_is_named() -> None:
    error = await refusal(reference("other", "other", controller=True))
    assert str(error) == "Deployment cache already exists and belongs to Memcached other"
    assert error.controller is not None
    assert error.controller.uid == "other"


@pytest.mark.virtual_time
async def test_an_earlier_owner_of_the_same_name_is_another_owner() -> None:
    error = await refusal(reference("cache", "old", controller=True))
    assert error.controller is not None
    assert error.controller.uid == "old"


@pytest.mark.virtual_time
async def test_an_owner_that_is_not_the_controller_does_not_count() -> None:
    error = await refusal(reference("cache", "new"))
    assert str(error) == "Deployment cache already exists and was created by somebody else"
    assert error.controller is None


@pytest.mark.virtual_time
async def test_an_owner_in_another_namespace_is_refused_before_anything_is_sent() -> None:
    wire = ScriptedWire()
    elsewhere = Deployment(metadata=ObjectMeta(name="cache", namespace="other"), spec={"replicas": 1})
    with pytest.raises(
        ValueError, match="Memcached team/cache cannot own cache, which is in namespace other"
    ):
        await client_on(wire).apply(elsewhere, owner=OWNER)
    assert wire.requests == []


@pytest.mark.virtual_time
@pytest.mark.parametrize("write", ["create", "update", "patch", "apply"])
async def test_what_is_in_no_namespace_gets_no_owner_that_is_in_one(write: str) -> None:
    wire = ScriptedWire()
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
        await getattr(client_on(wire), write)(child)
    assert {sent.method for sent in wire.requests} == {"GET"}
