"""Many at once: no write is lost, and no watch misses one."""

from __future__ import annotations

import asyncio
import collections
import random
from typing import Any

import orjson
import pytest

from tests.unit.devcluster.api.conftest import APPLY, CONFIG_MAPS, MERGE, Api, config_map

NAMES = [f"n{number}" for number in range(12)]


async def test_of_updates_of_one_version_one_succeeds(api: Api) -> None:
    live = await api.expect(201, "POST", CONFIG_MAPS, config_map("a"))
    updates = [{**live, "data": {"key": str(number)}} for number in range(50)]
    answers = await asyncio.gather(*(api.ask("PUT", f"{CONFIG_MAPS}/a", each) for each in updates))
    assert collections.Counter(answer.status for answer in answers) == {200: 1, 409: 49}


async def test_updates_without_a_version_all_succeed_and_so_do_applies(api: Api) -> None:
    await api.expect(201, "POST", CONFIG_MAPS, config_map("a"))
    updates = [{**config_map("a"), "data": {"key": str(number)}} for number in range(50)]
    answers = await asyncio.gather(*(api.ask("PUT", f"{CONFIG_MAPS}/a", each) for each in updates))
    versions = {orjson.loads(answer.body)["metadata"]["resourceVersion"] for answer in answers}
    assert len(versions) == 50
    head = {"apiVersion": "v1", "kind": "ConfigMap"}
    answers = await asyncio.gather(
        *(
            api.ask(
                "PATCH",
                f"{CONFIG_MAPS}/a?fieldManager=m{number}",
                {**head, "metadata": {"name": "a"}, "data": {f"k{number}": "x"}},
                media=APPLY,
            )
            for number in range(20)
        )
    )
    assert {answer.status for answer in answers} == {200}
    assert len((await api.expect(200, "GET", f"{CONFIG_MAPS}/a"))["data"]) == 21


class Follower:
    """Lists and watches as clients do, breaks off now and then, and checks events against what it knows."""

    def __init__(self, api: Api, selector: str, seed: int) -> None:
        self.api = api
        self.query = f"labelSelector={selector}"
        self.rng = random.Random(seed)
        self.state: dict[str, str] | None = None
        self.version = 0
        self.last: int | None = None

    async def list(self) -> None:
        listed = await self.api.expect(200, "GET", f"{CONFIG_MAPS}?{self.query}")
        self.version = int(listed["metadata"]["resourceVersion"])
        self.state = {
            item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed["items"]
        }

    async def follow(self) -> None:
        """Until the last change of all was seen, or could have been."""
        while self.last is None or self.version < self.last:
            if self.state is None:
                await self.list()
                continue
            path = (
                f"{CONFIG_MAPS}?watch=1&allowWatchBookmarks=1&timeoutSeconds=1&resourceVersion={self.version}"
            )
            stream = (await self.api.ask("GET", f"{path}&{self.query}")).stream
            assert stream is not None
            try:
                for _ in range(self.rng.randint(1, 12)):
                    self.take(await asyncio.wait_for(anext(stream), 0.05))
            except (TimeoutError, StopAsyncIteration):
                if self.last is not None and self.state is not None:
                    return
            finally:
                await stream.aclose()  # type: ignore[attr-defined]

    def take(self, chunk: bytes) -> None:
        for line in chunk.splitlines():
            event = orjson.loads(line)
            if event["type"] == "ERROR":
                assert event["object"]["code"] == 410
                self.state = None
                return
            self.check(event["type"], event["object"]["metadata"])

    def check(self, kind: str, metadata: dict[str, Any]) -> None:
        assert self.state is not None
        assert int(metadata["resourceVersion"]) > self.version
        self.version = int(metadata["resourceVersion"])
        name = metadata["name"]
        assert (name in self.state) is (kind != "ADDED"), (kind, name)
        if kind == "DELETED":
            del self.state[name]
        else:
            self.state[name] = metadata["resourceVersion"]


async def write(api: Api, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(60):
        name, chance = rng.choice(NAMES), rng.random()
        metadata = {"labels": {"side": rng.choice("ab")}}
        if chance < 0.4:
            await api.ask("POST", CONFIG_MAPS, config_map(name, **metadata))
        elif chance < 0.7:
            patch = {"metadata": metadata, "data": {"key": f"{seed}-{number}"}}
            await api.ask("PATCH", f"{CONFIG_MAPS}/{name}", patch, media=MERGE)
        else:
            await api.ask("DELETE", f"{CONFIG_MAPS}/{name}")
        if chance < 0.02:
            api.server.store.expire_history()
        await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(2))
async def test_a_watch_that_goes_on_where_it_broke_off_misses_nothing(api: Api, seed: int) -> None:
    followers = [
        Follower(api, selector, seed * 10 + number)
        for number, selector in enumerate(["", "side=a", "side!=a", "side in (a,b)"])
    ]
    for each in followers:
        await each.list()
    async with asyncio.TaskGroup() as group:
        for each in followers:
            group.create_task(each.follow())
        await asyncio.gather(*(write(api, seed * 100 + number) for number in range(4)))
        for each in followers:
            each.last = api.server.store.version
    for each in followers:
        seen = each.state
        await each.list()
        assert each.state == seen
