from __future__ import annotations

import datetime
from collections.abc import AsyncIterator
from typing import Any

import pytest

from devcluster.api.local import LocalClient
from devcluster.storage.records import Key
from tests.unit.devcluster.api.conftest import Api

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


class Logs:
    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    async def stream(self, pod: dict[str, Any], container: str, **options: Any) -> AsyncIterator[bytes]:
        self.asked = {"pod": pod["metadata"]["name"], "container": container, **options}
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


async def test_a_pod_is_bound_once(pod: Api) -> None:
    await bind(pod)
    bound = await pod.expect(200, "GET", f"{PODS}/p")
    assert bound["spec"]["nodeName"] == "node-1"
    assert [each["type"] for each in bound["status"]["conditions"]] == ["PodScheduled"]
    again = {"metadata": {"name": "p"}, "target": {"name": "node-2"}}
    status = await pod.expect(409, "POST", f"{PODS}/p/binding", again)
    assert status["message"] == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "node-1"'
    )


async def test_a_bound_pod_is_deleted_gracefully(pod: Api) -> None:
    await bind(pod)
    leaving = await pod.expect(200, "DELETE", f"{PODS}/p?gracePeriodSeconds=20")
    assert leaving["metadata"]["deletionGracePeriodSeconds"] == 20
    assert leaving["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:20Z"
    sooner = await pod.expect(200, "DELETE", f"{PODS}/p?gracePeriodSeconds=5")
    assert sooner["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:05Z"
    gone = await pod.expect(200, "DELETE", f"{PODS}/p?gracePeriodSeconds=0")
    assert gone["kind"] == "Pod"
    await pod.expect(404, "GET", f"{PODS}/p")


async def test_an_eviction_waits_for_the_budget(pod: Api) -> None:
    client = LocalClient(pod.server)
    await bind(pod)
    await client.patch("pods", "default", "p", {"status": {"phase": "Running"}}, subresource="status")
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    await pod.expect(201, "POST", BUDGETS, budget)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    unseen = await pod.expect(429, "POST", f"{PODS}/p/eviction", eviction)
    assert unseen["details"]["retryAfterSeconds"] == 10
    status: dict[str, Any] = {"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 0}
    status |= {"disruptionsAllowed": 0, "expectedPods": 1}
    resource = "poddisruptionbudgets.policy"
    await client.patch(resource, "default", "b", {"status": status}, subresource="status")
    refused = await pod.expect(429, "POST", f"{PODS}/p/eviction", eviction)
    assert refused["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 1 healthy pods and has 0 currently",
        }
    ]
    await client.patch(resource, "default", "b", {"status": {"disruptionsAllowed": 1}}, subresource="status")
    await pod.expect(201, "POST", f"{PODS}/p/eviction", eviction)
    after = await client.get(resource, "default", "b")
    assert (after["status"]["disruptionsAllowed"], list(after["status"]["disruptedPods"])) == (0, ["p"])


async def test_logs_are_of_one_container(pod: Api) -> None:
    logs = pod.server.logs = Logs()
    status = await pod.expect(400, "GET", f"{PODS}/p/log")
    assert status["message"] == ("a container name must be specified for pod p, choose one of: [main side]")
    empty = await pod.ask("GET", f"{PODS}/p/log?container=main")
    assert (empty.status, empty.body, empty.stream) == (200, b"", None)
    await bind(pod)
    answer = await pod.ask("GET", f"{PODS}/p/log?container=main&tailLines=3&sinceSeconds=10&limitBytes=6")
    assert answer.stream is not None
    assert b"".join([chunk async for chunk in answer.stream]) == b"one\ntw"
    assert (logs.asked["container"], logs.asked["tail_lines"], logs.asked["follow"]) == ("main", 3, False)
    assert logs.asked["since"] == datetime.datetime(2027, 1, 15, 7, 59, 50, tzinfo=datetime.UTC)


async def test_log_options_are_checked_before_the_pod(api: Api) -> None:
    status = await api.expect(422, "GET", f"{PODS}/nope/log?tailLines=-1")
    assert status["message"] == (
        'PodLogOptions "nope" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0'
    )


async def test_the_local_client_writes_as_a_controller(api: Api) -> None:
    client = LocalClient(api.server)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u-1"}
    made = await client.create(
        "configmaps", "default", {"metadata": {"name": "a", "ownerReferences": [owner]}}
    )
    assert made["metadata"]["managedFields"][0]["manager"] == "kube-controller-manager"
    made["data"] = {"k": "v"}
    changed = await client.update("configmaps", "default", made)
    assert client.peek("configmaps", "default", "a") == changed
    assert [each["metadata"]["name"] for each in client.list("configmaps", owner_uid="u-1")] == ["a"]
    assert client.list("configmaps", "elsewhere") == []
    await client.delete("configmaps", "default", "a", uid=made["metadata"]["uid"])
    assert api.server.store.get(Key("", "configmaps", "default", "a")) is None
