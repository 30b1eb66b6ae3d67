"""Requests that the recorded conversations do not contain."""

from __future__ import annotations

import asyncio
import collections
import datetime
import random
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from devcluster.api.interfaces import LogOptions
from devcluster.api.local import LocalClient
from devcluster.storage.records import Key
from tests.unit.devcluster.api.conftest import APPLY, CONFIG_MAPS, MERGE, Api, config_map


@pytest.fixture
async def filled(api: Api) -> Api:
    for name in "abcde":
        await api.expect(
            201, "POST", CONFIG_MAPS, config_map(name, labels={"odd": str(name in "ace").lower()})
        )
    return api


async def names(api: Api, query: str) -> list[str]:
    listed = await api.expect(200, "GET", f"{CONFIG_MAPS}?{query}")
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_expired_list_page_returns_a_token_to_continue(filled: Api):
    page = await filled.expect(200, "GET", f"{CONFIG_MAPS}?limit=2")
    await filled.expect(200, "DELETE", f"{CONFIG_MAPS}/d")
    filled.server.store.expire_history()
    gone = await filled.expect(410, "GET", f"{CONFIG_MAPS}?limit=2&continue={page['metadata']['continue']}")
    assert gone["reason"] == "Expired"
    assert await names(filled, f"continue={gone['metadata']['continue']}") == ["c", "e"]


async def test_list_not_older_than_a_version_is_current_and_refuses_a_future_version(
    filled: Api,
):
    assert await names(filled, "resourceVersion=3&resourceVersionMatch=NotOlderThan") == list("abcde")
    refused = await filled.expect(504, "GET", f"{CONFIG_MAPS}?resourceVersion=999")
    assert refused["message"] == "Timeout: Too large resource version: 999, current: 6"


async def test_watch_from_an_expired_version_sends_an_error_event_and_ends(api: Api):
    for name in "abc":
        await api.expect(201, "POST", CONFIG_MAPS, config_map(name))
    api.server.store.expire_history()
    lines = await api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion=2")
    event = await lines.next()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["message"]) == (410, "too old resource version: 2 (4)")
    assert await lines.ended()


@pytest.mark.virtual_time
async def test_watch_sends_a_bookmark_and_ends_after_its_timeout(api: Api):
    await api.expect(201, "POST", CONFIG_MAPS, config_map("a"))
    lines = await api.watch(
        f"{CONFIG_MAPS}?watch=1&timeoutSeconds=3&resourceVersion=2&allowWatchBookmarks=true"
    )
    bookmark = await lines.next()
    assert (bookmark["type"], bookmark["object"]["metadata"]) == ("BOOKMARK", {"resourceVersion": "2"})
    assert await lines.ended()


@pytest.mark.virtual_time
async def test_watch_from_a_future_version_sends_no_events(api: Api):
    lines = await api.watch(
        f"{CONFIG_MAPS}?watch=1&timeoutSeconds=3&resourceVersion=999&allowWatchBookmarks=true"
    )
    await api.expect(201, "POST", CONFIG_MAPS, config_map("a"))
    assert await lines.ended()


async def test_response_stream_that_is_never_read_leaves_no_watch(api: Api):
    lines = await api.watch(f"{CONFIG_MAPS}?watch=1")
    await lines.aclose()
    assert not api.server.store._watches["", "configmaps"]


async def test_many_unknown_fields_are_validated_quickly_with_few_warnings(api: Api):
    body = config_map("a") | {f"unknown{number}": 1 for number in range(20_000)}
    async with asyncio.timeout(5):
        answer = await api.ask("POST", f"{CONFIG_MAPS}?fieldValidation=Warn", body)
    assert answer.status == 201
    assert len(answer.warnings) == 100


PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


class Logs:
    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    async def __call__(self, _: Any, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        self.asked = {"container": container, **options._asdict()}
        yield b"one\n"
        yield b"two\n"


@pytest.fixture
async def pod(api: Api) -> Api:
    spec = {"containers": [{"name": name, "image": "i"} for name in ("main", "side")]}
    await api.expect(201, "POST", PODS, {"metadata": {"name": "p", "labels": {"app": "x"}}, "spec": spec})
    return api


async def bind(api: Api) -> None:
    await api.expect(
        201, "POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "node-1"}}
    )


async def test_pod_is_deleted_gracefully(pod: Api):
    await bind(pod)
    for seconds, due in ((20, "2027-01-15T08:00:20Z"), (5, "2027-01-15T08:00:05Z")):
        leaving = await pod.expect(200, "DELETE", f"{PODS}/p?gracePeriodSeconds={seconds}")
        assert leaving["metadata"]["deletionGracePeriodSeconds"] == seconds
        assert leaving["metadata"]["deletionTimestamp"] == due
    await pod.expect(200, "DELETE", f"{PODS}/p?gracePeriodSeconds=0")
    await pod.expect(404, "GET", f"{PODS}/p")


async def test_eviction_waits_for_the_disruption_budget(pod: Api):
    client = LocalClient(pod.server)
    await bind(pod)
    await client.patch("pods", "default", "p", {"status": {"phase": "Running"}}, subresource="status")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    await pod.expect(201, "POST", BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    unseen = await pod.expect(429, "POST", f"{PODS}/p/eviction", eviction)
    assert unseen["details"]["retryAfterSeconds"] == 10
    status: dict[str, Any] = {"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 0}
    status |= {"disruptionsAllowed": 0, "expectedPods": 1}
    resource = "poddisruptionbudgets.policy"
    await client.patch(resource, "default", "b", {"status": status}, subresource="status")
    refused = await pod.expect(429, "POST", f"{PODS}/p/eviction", eviction)
    needed = "The disruption budget b needs 1 healthy pods and has 0 currently"
    assert refused["details"]["causes"] == [{"reason": "DisruptionBudget", "message": needed}]
    await client.patch(resource, "default", "b", {"status": {"disruptionsAllowed": 1}}, subresource="status")
    await pod.expect(201, "POST", f"{PODS}/p/eviction", eviction)
    after = await client.get(resource, "default", "b")
    assert (after["status"]["disruptionsAllowed"], list(after["status"]["disruptedPods"])) == (0, ["p"])


async def test_log_request_passes_container_and_limits_to_the_logs(pod: Api):
    logs = pod.server.subresources.pods.sessions.logs = Logs()
    await bind(pod)
    answer = await pod.ask("GET", f"{PODS}/p/log?container=main&tailLines=3&sinceSeconds=10&limitBytes=6")
    assert answer.stream is not None
    assert b"".join([chunk async for chunk in answer.stream]) == b"one\ntw"
    assert (logs.asked["container"], logs.asked["tail_lines"], logs.asked["follow"]) == ("main", 3, False)
    assert logs.asked["since"] == datetime.datetime(2027, 1, 15, 7, 59, 50, tzinfo=datetime.UTC)
    answer = await pod.ask("GET", f"{PODS}/p/log?container=main&sinceSeconds={2**63 - 1}")
    assert answer.stream is not None
    assert await anext(answer.stream)
    assert logs.asked["since"] == datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


async def test_local_client_writes_as_kube_controller_manager(api: Api):
    client = LocalClient(api.server)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u-1"}
    made = await client.create(
        "configmaps", "default", {"metadata": {"name": "a", "ownerReferences": [owner]}}
    )
    assert made["metadata"]["managedFields"][0]["manager"] == "kube-controller-manager"
    made["data"] = {"k": "v"}
    changed = await client.update("configmaps", "default", made)
    assert client.peek("configmaps", "default", "a") == changed
    assert [each["metadata"]["name"] for each in client.list("configmaps", "default")] == ["a"]
    assert client.list("configmaps", "elsewhere") == []
    await client.delete("configmaps", "default", "a", uid=made["metadata"]["uid"])
    assert api.server.store.get(Key("", "configmaps", "default", "a")) is None


NAMES = [f"n{number}" for number in range(12)]


async def test_concurrent_updates_of_one_version_succeed_only_once(api: Api):
    live = await api.expect(201, "POST", CONFIG_MAPS, config_map("a"))
    updates = [{**live, "data": {"key": str(number)}} for number in range(50)]
    answers = await asyncio.gather(*(api.ask("PUT", f"{CONFIG_MAPS}/a", each) for each in updates))
    assert collections.Counter(answer.status for answer in answers) == {200: 1, 409: 49}


async def test_concurrent_updates_without_a_version_and_applies_all_succeed(api: Api):
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
    """Client that lists and watches with interruptions, and checks each event against its own state."""

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
        """List and watch until the last change has been delivered."""
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
async def test_resumed_watch_misses_no_event(api: Api, seed: int):
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
