"""Shard selectors that are not recorded: of watches, of deletions, and without the feature gate."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import pytest

from devcluster import DevCluster
from manager_shards.shard_set import ShardSet
from tests.recordings.shards import OBJECTS, new_object, sixteenth
from tests.unit.devcluster.api.conftest import CONFIG_MAPS, Api


@pytest.fixture(params=[True], ids=["on"])
async def sharded(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    """Run an API server with 200 ConfigMaps; with the parameter True, the gate ShardedListAndWatch is on."""
    gates = ("ShardedListAndWatch",) if request.param else ()
    async with DevCluster(port=None, controllers=False, rng=random.Random(1), feature_gates=gates) as cluster:
        # These tests need no authentication and no authorization.
        cluster.server.authenticator = cluster.server.authorizer = None
        api = Api(cluster.server)
        for number in range(OBJECTS):
            await api.expect(201, "POST", CONFIG_MAPS, new_object("configmaps", number))
        yield api


async def shards_of(api: Api, count: int) -> dict[str, int]:
    """Return the shard number of each ConfigMap by its name, when there are `count` shards."""
    shards = ShardSet.of(count, ())
    items = (await api.expect(200, "GET", CONFIG_MAPS))["items"]
    return {item["metadata"]["name"]: shards.number_of(item["metadata"]["uid"]) for item in items}


async def test_watch_with_a_shard_selector_reports_only_objects_of_the_shard(sharded: Api):
    shards = await shards_of(sharded, 2)
    inside, outside = (next(name for name in shards if shards[name] == number) for number in (0, 1))
    half = urlencode({"shardSelector": ShardSet.of(2, {0}).selector})
    initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    watch = await sharded.watch(f"{CONFIG_MAPS}?watch=true&{initial}&{half}")
    listed = [("ADDED", name) for name in shards if shards[name] == 0]
    assert await watch.names(len(listed)) == listed
    assert (await watch.next())["type"] == "BOOKMARK"
    for name in (outside, inside):
        await sharded.expect(
            200, "PUT", f"{CONFIG_MAPS}/{name}", {"metadata": {"name": name}, "data": {"a": "b"}}
        )
        await sharded.expect(200, "DELETE", f"{CONFIG_MAPS}/{name}")
    assert await watch.names(2) == [("MODIFIED", inside), ("DELETED", inside)]
    await watch.aclose()


async def test_delete_collection_with_a_shard_selector_deletes_only_objects_of_that_shard(sharded: Api):
    await sharded.expect(200, "DELETE", f"{CONFIG_MAPS}?{urlencode({'shardSelector': sixteenth(5)})}")
    assert {*(await shards_of(sharded, 16)).values()} == {*range(16)} - {5}


@pytest.mark.parametrize("sharded", [False], indirect=True, ids=["off"])
@pytest.mark.parametrize("selector", ["foo", sixteenth(3)])
async def test_list_ignores_a_shard_selector_when_the_feature_gate_is_off(sharded: Api, selector: str):
    query = urlencode({"shardSelector": selector})
    listed = await sharded.expect(200, "GET", f"{CONFIG_MAPS}?{query}")
    assert len(listed["items"]) == OBJECTS
    assert "shardInfo" not in listed["metadata"]
