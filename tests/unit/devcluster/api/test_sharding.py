"""Lists and watches with a shard selector, beyond the real server's recorded answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import pytest

from devcluster import DevCluster
from manager_shards.shard_set import ShardSet
from tests.recordings.asking import CRDS, NAMESPACE
from tests.recordings.shards import OBJECTS, definition, new_object, path_of, sixteenth
from tests.unit.devcluster.api.conftest import Api

CONFIG_MAPS, PARTS = path_of("configmaps", NAMESPACE), path_of("parts", NAMESPACE)


@pytest.fixture(params=[True], ids=["on"])
async def sharded(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    """Run an API server with 200 ConfigMaps and as many custom objects."""
    gates = ("ShardedListAndWatch",) if request.param else ()
    async with DevCluster(port=None, controllers=False, rng=random.Random(1), feature_gates=gates) as cluster:
        # These tests need no authentication and no authorization.
        cluster.server.authenticator = cluster.server.authorizer = None
        api = Api(cluster.server)
        await api.expect(201, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await api.expect(201, "POST", CRDS, definition())
        while (await api.ask("GET", PARTS)).status != 200:  # noqa: ASYNC110 -- no notification
            await asyncio.sleep(0)
        for number in range(OBJECTS):
            await api.expect(201, "POST", CONFIG_MAPS, new_object("configmaps", number))
            await api.expect(201, "POST", PARTS, new_object("parts", number))
        yield api


async def digits_of(api: Api) -> dict[str, str]:
    """Return the number of each object's shard, of 16 shards, by UID."""
    found = {}
    for path in (CONFIG_MAPS, PARTS):
        for item in (await api.expect(200, "GET", path))["items"]:
            uid = item["metadata"]["uid"]
            found[uid] = f"{ShardSet.of(16, ()).number_of(uid):x}"
    return found


async def test_list_pages_of_a_shard_contain_every_object(sharded: Api):
    query = urlencode({"shardSelector": sixteenth(3), "limit": 2})
    names: list[str] = []
    token = ""
    while True:
        page = await sharded.expect(200, "GET", f"{CONFIG_MAPS}?{query}&continue={token}")
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    whole = await sharded.expect(200, "GET", f"{CONFIG_MAPS}?{urlencode({'shardSelector': sixteenth(3)})}")
    assert names == [item["metadata"]["name"] for item in whole["items"]]
    assert len(names) > 2


async def test_shard_watch_reports_only_the_objects_of_its_shard(sharded: Api):
    digits = await digits_of(sharded)
    items = (await sharded.expect(200, "GET", CONFIG_MAPS))["items"]
    own, other = (
        next(item for item in items if (digits[item["metadata"]["uid"]] < "8") is within)
        for within in (True, False)
    )
    half = urlencode({"shardSelector": ShardSet.of(2, {0}).selector})
    initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    watch = await sharded.watch(f"{CONFIG_MAPS}?watch=true&{initial}&{half}")
    listed = await sharded.expect(200, "GET", f"{CONFIG_MAPS}?{half}")
    for item in listed["items"]:
        assert (await watch.next())["object"]["metadata"]["name"] == item["metadata"]["name"]
    assert (await watch.next())["type"] == "BOOKMARK"
    for item in (other, own):
        path = f"{CONFIG_MAPS}/{item['metadata']['name']}"
        await sharded.expect(200, "PUT", path, {**item, "data": {"changed": "yes"}})
        await sharded.expect(200, "DELETE", path)
    name = own["metadata"]["name"]
    assert await watch.names(2) == [("MODIFIED", name), ("DELETED", name)]
    await watch.aclose()


async def test_delete_collection_removes_only_the_selected_shard(sharded: Api):
    digits = await digits_of(sharded)
    query = urlencode({"shardSelector": sixteenth(5)})
    await sharded.expect(200, "DELETE", f"{CONFIG_MAPS}?{query}")
    left = (await sharded.expect(200, "GET", CONFIG_MAPS))["items"]
    assert {digits[item["metadata"]["uid"]] for item in left} == set("01234" + "6789abcdef")


async def test_shard_selector_is_refused_when_it_is_not_an_expression(sharded: Api):
    told = await sharded.expect(500, "GET", f"{CONFIG_MAPS}?shardSelector=foo(")
    assert told["message"].startswith("invalid shard selector: CEL parse error: Syntax error: ")


@pytest.mark.parametrize("sharded", [False], indirect=True, ids=["off"])
@pytest.mark.parametrize("selector", ["foo", sixteenth(3)])
async def test_shard_selector_is_ignored_when_the_feature_gate_is_off(sharded: Api, selector: str):
    query = urlencode({"shardSelector": selector})
    listed = await sharded.expect(200, "GET", f"{CONFIG_MAPS}?{query}")
    assert len(listed["items"]) == OBJECTS
    assert "shardInfo" not in listed["metadata"]
