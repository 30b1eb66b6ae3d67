"""What a Memcached's servers are, and what its status tells of them."""

from __future__ import annotations

import pytest

from apis.cache.v1.memcached import Memcached, MemcachedSpec
from controllers.cache.memcached import MOST_NODES, MemcachedOperator
from manager.api import ObjectMeta, PartialObjectMetadata
from manager.api.apps_v1 import Deployment
from manager.api.core_v1 import Pod
from manager.kube.errors import Invalid
from manager.testing import operated
from tests.unit.controllers.seen import seen

pytestmark = pytest.mark.virtual_time


def memcached(size: int) -> Memcached:
    return Memcached(metadata=ObjectMeta(name="m"), spec=MemcachedSpec.model_construct(size=size))


async def test_of_many_servers_the_status_names_some_and_counts_all():
    size = MOST_NODES + 3
    async with operated(MemcachedOperator) as world:
        cluster = await world.create(memcached(size))
        cluster = await world.until(cluster, lambda it: it.status.node_count == size)
        assert len(cluster.status.nodes) == MOST_NODES
        assert cluster.status.nodes == sorted(cluster.status.nodes)


async def test_its_pods_are_named_without_a_look_into_them_which_would_cost_what_somebody_put_there(
    monkeypatch: pytest.MonkeyPatch,
):
    def look(raw: bytes, **_: object) -> None:
        raise AssertionError(raw)

    for kind in (Pod, PartialObjectMetadata):
        monkeypatch.setattr(kind, "decode", look)
    async with seen(MemcachedOperator) as memcacheds:
        await memcacheds.create("m", {"size": 0})
        for name, more in {"b": {}, "a": {}, "going": {"finalizers": ["example.com/hold"]}}.items():
            metadata = {"name": name, "labels": {"app": "memcached", "memcached_cr": "m"}, **more}
            spec = {"containers": [{"name": "main", "image": "image"}]}
            await memcacheds.api.create("pods", "default", {"metadata": metadata, "spec": spec})
        await memcacheds.cost(memcacheds.api.delete("pods", "default", "going"))
        assert memcacheds.status("m")["nodes"] == ["a", "b"]


async def test_more_servers_than_anybody_can_mean_are_refused():
    async with operated(MemcachedOperator) as world:
        with pytest.raises(Invalid, match=r"spec\.size.*10000"):
            await world.create(memcached(200_000))


async def test_servers_have_probes_resources_and_the_labels_that_tools_know():
    async with operated(MemcachedOperator) as world:
        cluster = await world.create(memcached(1))
        await world.until(cluster, lambda it: it.status.node_count == 1)
        deployment = await world.get(Deployment, "m")
        template = deployment.spec["template"]
        for labels in (deployment.metadata.labels, template["metadata"]["labels"]):
            assert labels["app.kubernetes.io/name"] == "memcached"
            assert labels["app.kubernetes.io/instance"] == "m"
            assert labels["app.kubernetes.io/managed-by"] == world.manager.program.name
        # A Deployment's selector cannot change, and so is what it was.
        assert deployment.spec["selector"] == {"matchLabels": {"app": "memcached", "memcached_cr": "m"}}
        (container,) = template["spec"]["containers"]
        assert container["resources"]["limits"]["memory"] == "128Mi"
        assert {"readinessProbe", "livenessProbe"} <= container.keys()
        # A real memcached reads "-m=64" as 0 and exits.
        assert container["command"] == ["memcached", "-m", "64", "-o", "modern", "-v"]
