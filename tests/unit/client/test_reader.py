"""What reads answer that is not just the object asked for."""

from __future__ import annotations

import random

import pytest

from apis.meta import ObjectKey, PartialObjectMetadata
from manager.cache import Cache, CacheOptions
from manager.client import Client, Undecodable
from manager.kube.errors import NoMatch
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.metrics import Metrics
from tests.support.scripted_wire import Reply, ScriptedWire
from tests.unit.cache.conftest import LogLines, log_lines
from tests.unit.cache.objects import Pod, encoded, pod
from tests.unit.cache.server import DISCOVERY

__all__ = ["log_lines"]

pytestmark = pytest.mark.looptime


class World:
    """A client, what its cache holds, and the wire to its server."""

    def __init__(self, *namespaces: str) -> None:
        self.wire = ScriptedWire()
        self.wire.on("GET", "/api/v1", DISCOVERY)
        self.metrics = Metrics()
        rng = random.Random(1)
        transport = Transport(self.wire, metrics=self.metrics, rng=rng, user_agent="test")
        mapper = RestMapper(transport)
        self.cache = Cache(
            transport,
            mapper,
            field_manager="test",
            options=CacheOptions(namespaces=namespaces),
            metrics=self.metrics,
            rng=rng,
        )
        self.client = Client(transport, mapper, self.cache, field_manager="test")
        for metadata_only in (False, True):
            self.cache.informer(Pod, metadata_only=metadata_only)

    def holds(self, name: str, version: int, **more: object) -> None:
        self.cache.observe_write(Pod, encoded(pod(name, version, **more)))

    @property
    def left_out(self) -> float | None:
        labels = {"kind": "pods", "part": "decode"}
        return self.metrics.registry.get_sample_value("operator_manager_cache_failures_total", labels)


@pytest.fixture
async def world() -> World:
    world = World()
    world.holds("a", 1)
    world.holds("odd", 2, spec="none")
    world.holds("z", 3)
    return world


def names(pods: list[Pod]) -> list[str]:
    return [each.metadata.name for each in pods]


class TestAnObjectOfAnotherShape:
    async def test_is_left_out_of_lists_and_named(self, world: World):
        pods = await world.client.list(Pod)
        assert names(pods) == ["a", "z"]
        [error] = pods.undecodable
        assert (error.gvk, error.key, str(error)) == (
            Pod.gvk,
            ("ns", "odd"),
            "Pod ns/odd: spec: Input should be an object",
        )

    async def test_is_raised_by_who_wants_all(self, world: World):
        with pytest.raises(Undecodable, match="ns/odd"):
            (await world.client.list(Pod)).complete()
        pods = await world.client.list(Pod, labels="!odd,app!=x")
        assert names(pods) == ["a", "z"]
        world.holds("odd", 4)
        assert names((await world.client.list(Pod)).complete()) == ["a", "odd", "z"]

    async def test_is_counted_and_logged_once_for_each_state(self, world: World, log_lines: LogLines):
        assert world.left_out == 0
        for _ in range(3):
            await world.client.list(Pod)
        world.holds("odd", 4, spec="none")
        await world.client.list(Pod)
        assert world.left_out == 2
        assert [(line["event"], line["object"]) for line in log_lines] == [
            ("an object is left out of lists", "ns/odd")
        ] * 2

    async def test_is_raised_when_it_is_asked_for(self, world: World):
        for read in (world.client.get, world.client.find):
            with pytest.raises(Undecodable):
                await read(Pod, ObjectKey("ns", "odd"))

    async def test_is_told_in_the_same_way_by_the_server(self, world: World):
        odd = pod("odd", 2, spec="none")
        world.wire.on("GET", "/api/v1/namespaces/ns/pods/odd", Reply.json(odd))
        items = {"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [odd, pod("z", 3)]}
        world.wire.on("GET", "/api/v1/pods*", Reply.json(items))
        with pytest.raises(Undecodable, match="ns/odd: spec"):
            await world.client.uncached.get(Pod, ObjectKey("ns", "odd"))
        pods = await world.client.uncached.list(Pod)
        assert names(pods) == ["z"]
        assert [error.key for error in pods.undecodable] == [("ns", "odd")]


async def test_an_object_of_which_only_metadata_was_read_cannot_be_written_back(world: World):
    # What its cache has left out would be lost.
    world.wire.on("GET", "/apis/meta.k8s.io/v1", Reply.status(404, "NotFound"))
    partial = await world.client.metadata.find(Pod, ObjectKey("ns", "a"))
    assert isinstance(partial, PartialObjectMetadata)
    partial.metadata.labels["x"] = "y"
    for write in (world.client.update, world.client.patch, world.client.apply, world.client.create):
        with pytest.raises(NoMatch):
            await write(partial)
    assert {request.method for request in world.wire.requests} == {"GET"}
