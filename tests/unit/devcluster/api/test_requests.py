"""API requests that the recorded conversations with a real server do not contain."""

from __future__ import annotations

import asyncio
import base64
import collections
import datetime
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from devcluster.api.interfaces import LogOptions
from devcluster.api.local import LocalClient
from devcluster.storage.records import Key
from tests.support.effort import Effort
from tests.unit.devcluster.api.conftest import APPLY, CONFIG_MAPS, Api, config_map


@pytest.fixture
async def filled(api: Api) -> Api:
    for name in "abcde":
        await api.expect(201, "POST", CONFIG_MAPS, config_map(name))
    return api


async def names(api: Api, query: str) -> list[str]:
    listed = await api.expect(200, "GET", f"{CONFIG_MAPS}?{query}")
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_list_with_an_expired_continue_token_returns_a_usable_new_token(filled: Api):
    page = await filled.expect(200, "GET", f"{CONFIG_MAPS}?limit=2")
    await filled.expect(200, "DELETE", f"{CONFIG_MAPS}/d")
    filled.server.store.expire_history()
    gone = await filled.expect(410, "GET", f"{CONFIG_MAPS}?limit=2&continue={page['metadata']['continue']}")
    assert gone["reason"] == "Expired"
    assert await names(filled, f"continue={gone['metadata']['continue']}") == ["c", "e"]


async def test_list_refuses_a_future_resource_version_but_accepts_an_old_one_with_not_older_than(filled: Api):
    assert await names(filled, "resourceVersion=3&resourceVersionMatch=NotOlderThan") == list("abcde")
    refused = await filled.expect(504, "GET", f"{CONFIG_MAPS}?resourceVersion=999")
    assert refused["message"] == "Timeout: Too large resource version: 999, current: 6"


async def test_watch_from_an_expired_resource_version_sends_an_error_event_and_ends(filled: Api):
    filled.server.store.expire_history()
    lines = await filled.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion=2")
    event = await lines.next()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["message"]) == (410, "too old resource version: 2 (6)")
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


async def test_watch_closed_before_its_first_event_leaves_no_watch_in_the_store(api: Api):
    lines = await api.watch(f"{CONFIG_MAPS}?watch=1")
    await lines.aclose()
    assert not api.server.store._watches["", "configmaps"]


async def test_field_validation_of_many_unknown_fields_is_fast_and_returns_100_warnings(api: Api):
    body = config_map("a") | {f"unknown{number}": 1 for number in range(20_000)}
    with Effort() as spent:
        answer = await api.ask("POST", f"{CONFIG_MAPS}?fieldValidation=Warn", body)
    assert spent.units < 100
    assert answer.status == 201
    assert len(answer.warnings) == 100


PODS = "/api/v1/namespaces/default/pods"


class Logs:
    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    async def __call__(self, _: Any, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        self.asked = {"container": container, **options._asdict()}
        yield b"one\n"
        yield b"two\n"


async def test_pod_log_request_passes_container_and_tail_and_since_to_the_log_handler(api: Api):
    containers = [{"name": name, "image": "i"} for name in ("main", "side")]
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "node-1", "containers": containers}}
    await api.expect(201, "POST", PODS, pod)
    logs = api.server.subresources.pods.sessions.logs = Logs()
    answer = await api.ask("GET", f"{PODS}/p/log?container=main&tailLines=3&sinceSeconds=10&limitBytes=6")
    assert b"".join([chunk async for chunk in answer.stream]) == b"one\ntw"
    assert (logs.asked["container"], logs.asked["tail_lines"], logs.asked["follow"]) == ("main", 3, False)
    assert logs.asked["since"] == datetime.datetime(2027, 1, 15, 7, 59, 50, tzinfo=datetime.UTC)
    answer = await api.ask("GET", f"{PODS}/p/log?container=main&sinceSeconds={2**63 - 1}")
    assert await anext(answer.stream)
    assert logs.asked["since"] == datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


async def test_local_client_writes_as_field_manager_kube_controller_manager(api: Api):
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


async def test_only_one_of_concurrent_updates_of_the_same_resource_version_succeeds(api: Api):
    live = await api.expect(201, "POST", CONFIG_MAPS, config_map("a"))
    updates = [{**live, "data": {"key": str(number)}} for number in range(50)]
    answers = await asyncio.gather(*(api.ask("PUT", f"{CONFIG_MAPS}/a", each) for each in updates))
    assert collections.Counter(answer.status for answer in answers) == {200: 1, 409: 49}


async def test_concurrent_applies_and_updates_without_a_resource_version_all_succeed(api: Api):
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


async def test_api_refuses_an_integer_of_thousands_of_digits(api: Api):
    nines = "9" * 5000
    limited = await api.expect(400, "GET", f"{CONFIG_MAPS}?limit={nines}")
    assert limited["message"].endswith(": value out of range")
    await api.expect(200, "GET", f"{CONFIG_MAPS}?limit={'0' * 5000}1")
    await api.expect(400, "GET", f"{CONFIG_MAPS}?labelSelector=a>{nines}")


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (b"\xff", "invalid character 'ÿ' looking for beginning of value"),
        (b"9" * 5000 + b" x", "invalid character 'x' looking for beginning of value"),
        (b"[" * 100_000, "exceeded max depth"),
    ],
)
async def test_api_refuses_a_docker_config_that_is_not_json(api: Api, document: bytes, problem: str):
    data = {".dockerconfigjson": base64.b64encode(document).decode()}
    secret = {"metadata": {"name": "s"}, "type": "kubernetes.io/dockerconfigjson", "data": data}
    refused = await api.expect(422, "POST", "/api/v1/namespaces/default/secrets", secret)
    assert refused["message"].endswith(problem)


@pytest.mark.parametrize(("port", "why"), [("9" * 5000, "value out of range"), ("x", "invalid syntax")])
async def test_api_refuses_to_forward_an_invalid_port(api: Api, port: str, why: str):
    path = f"/api/v1/namespaces/default/pods/p/portforward?ports={port}"
    refused = await api.expect(400, "POST", path)
    assert refused["message"] == f'cannot convert to []int32: strconv.ParseUint: parsing "{port}": {why}'
