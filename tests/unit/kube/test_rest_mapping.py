from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manager.api.resource import GroupVersionKind
from manager.kube.errors import Forbidden, NoMatch, ProtocolError
from manager.kube.rest_mapping import RestMapper
from tests.support.scripted_wire import Delayed, Reply, ScriptedWire

pytestmark = pytest.mark.virtual_time

POD = GroupVersionKind("", "v1", "Pod")
NODE = GroupVersionKind("", "v1", "Node")
MEMCACHED = GroupVersionKind("cache.example.com", "v1", "Memcached")


def resource(name: str, kind: str, *, namespaced: bool = True) -> dict[str, Any]:
    return {"name": name, "namespaced": namespaced, "kind": kind}


def served(*resources: dict[str, Any]) -> Reply:
    return Reply.json({"kind": "APIResourceList", "resources": resources})


CORE = served(
    resource("nodes", "Node", namespaced=False),
    resource("pods", "Pod"),
    resource("pods/eviction", "Eviction"),
    resource("pods/status", "Pod"),
)
GROUP = served(resource("memcacheds", "Memcached"))


@pytest.fixture
async def wire() -> ScriptedWire:
    wire = ScriptedWire()
    wire.on("GET", "/api/v1", CORE)
    return wire


async def test_rest_mapper_resolves_a_kind_to_its_subresources_scope_and_paths(
    mapper: RestMapper, wire: ScriptedWire
):
    wire.on("GET", "/apis/cache.example.com/v1", GROUP)
    pod, node, memcached = [await mapper.resolve(gvk) for gvk in (POD, NODE, MEMCACHED)]
    assert (pod.gvk, pod.plural, pod.namespaced) == (POD, "pods", True)
    assert pod.subresources == {"eviction", "status"}
    assert pod.path() == "/api/v1/pods"
    assert pod.path("ns") == "/api/v1/namespaces/ns/pods"
    assert pod.path("ns", "a", "status") == "/api/v1/namespaces/ns/pods/a/status"
    assert node.path() == "/api/v1/nodes"
    assert node.path("", "n1") == node.path("ignored", "n1") == "/api/v1/nodes/n1"
    assert memcached.path("ns", "m") == "/apis/cache.example.com/v1/namespaces/ns/memcacheds/m"
    with pytest.raises(ValueError, match=r"Pod\.v1 is namespaced"):
        pod.path("", "a")


async def test_rest_mapping_escapes_or_refuses_object_names_that_would_change_the_path(mapper: RestMapper):
    mapping = await mapper.resolve(POD)
    assert mapping.path("ns", "a/../b?c#d%") == "/api/v1/namespaces/ns/pods/a%2F..%2Fb%3Fc%23d%25"
    assert mapping.path("ns", "system:x.y") == "/api/v1/namespaces/ns/pods/system:x.y"
    for name in (".", ".."):
        with pytest.raises(ValueError, match="cannot be a name"):
            mapping.path("ns", name)


async def test_rest_mapper_shares_and_caches_a_discovery_request_per_group_until_forget_is_called(
    mapper: RestMapper, wire: ScriptedWire
):
    wire.on("GET", "/api/v1", Delayed(1, CORE))
    first, *others = (asyncio.create_task(mapper.resolve(gvk)) for gvk in (POD, NODE, POD))
    await asyncio.sleep(0.5)
    first.cancel()
    assert [found.plural for found in await asyncio.gather(*others)] == ["nodes", "pods"]
    await mapper.resolve(NODE)
    assert len(wire.requests) == 2, "one for the cancelled caller, and one for all others"
    wire.on("GET", "/apis/*", Delayed(1, Reply.status(404, "NotFound")))
    results = await asyncio.gather(*(mapper.resolve(MEMCACHED) for _ in range(5)), return_exceptions=True)
    assert {type(result) for result in results} == {NoMatch}
    assert len(wire.requests) == 3
    mapper.forget(POD)
    mapper.forget(MEMCACHED)
    wire.on("GET", "/api/v1", served())
    with pytest.raises(NoMatch):
        await mapper.resolve(NODE)


async def test_rest_mapper_finds_a_kind_after_its_crd_is_installed(mapper: RestMapper, wire: ScriptedWire):
    other = GroupVersionKind("cache.example.com", "v1", "Other")
    for found in (Reply.status(404, "NotFound"), GROUP):
        wire.on("GET", "/apis/cache.example.com/v1", found)
        with pytest.raises(NoMatch, match=r"does not serve Other\.v1\.cache\.example\.com"):
            await mapper.resolve(other)
    assert (await mapper.resolve(MEMCACHED)).plural == "memcacheds"
    wire.on("GET", "/apis/cache.example.com/v1", served(resource("others", "Other")))
    assert (await mapper.resolve(other)).plural == "others"


@pytest.mark.parametrize(
    ("answer", "error"), [(Reply.status(403, "Forbidden"), Forbidden), (Reply(200, b"<html>"), ProtocolError)]
)
async def test_rest_mapper_raises_the_error_of_a_failed_discovery_request(
    mapper: RestMapper, wire: ScriptedWire, answer: Reply, error: type[Exception]
):
    wire.on("GET", "/api/v1", answer)
    with pytest.raises(error):
        await mapper.resolve(POD)
