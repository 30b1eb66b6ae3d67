from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apis.cache.v1.memcached import Memcached, MemcachedSpec
from controllers.cache.memcached import MOST_NODES, MemcachedOperator
from devcluster.errors import StatusError
from devcluster.http_call import ApiRequest, ApiResponse
from manager.api import ObjectMeta, PartialObjectMetadata
from manager.util.clock import now
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import Pod
from manager_tools.testing import operated, without_manager
from tests.support.admission import request
from tests.unit.controllers.seen import NAMESPACE, Seen, seen
from tests.unit.manager_kinds.pods import container, terminated

pytestmark = pytest.mark.virtual_time


def timestamp() -> str:
    return now().strftime("%Y-%m-%dT%H:%M:%SZ")


def memcached(size: int) -> Memcached:
    return Memcached(metadata=ObjectMeta(name="m"), spec=MemcachedSpec.model_construct(size=size))


async def test_memcached_status_lists_a_limited_number_of_nodes_and_counts_all_nodes():
    size = MOST_NODES + 3
    async with operated(MemcachedOperator) as world:
        cluster = await world.create(memcached(size))
        cluster = await world.until(cluster, lambda it: it.status.node_count == size)
        assert len(cluster.status.nodes) == MOST_NODES
        assert cluster.status.nodes == sorted(cluster.status.nodes)


async def test_memcached_status_names_its_pods_without_decoding_complete_pods(
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


async def test_memcached_pods_have_the_recommended_labels_and_resource_limits_and_probes():
    async with operated(MemcachedOperator) as world:
        cluster = await world.create(memcached(1))
        await world.until(cluster, lambda it: it.status.node_count == 1)
        deployment = await world.get(Deployment, "m")
        template = deployment.spec["template"]
        for labels in (deployment.metadata.labels, template["metadata"]["labels"]):
            assert labels["app.kubernetes.io/name"] == "memcached"
            assert labels["app.kubernetes.io/instance"] == "m"
            assert labels["app.kubernetes.io/managed-by"] == world.manager.program.name
        # The selector of a Deployment is immutable, so it keeps its original labels.
        assert deployment.spec["selector"] == {"matchLabels": {"app": "memcached", "memcached_cr": "m"}}
        (container,) = template["spec"]["containers"]
        assert container["resources"]["limits"]["memory"] == "128Mi"
        assert {"readinessProbe", "livenessProbe"} <= container.keys()
        # A real memcached reads "-m=64" as 0 and exits.
        assert container["command"] == ["memcached", "-m", "64", "-o", "modern", "-v"]


class Pods:
    """Pods that a test creates in addition to the pods of the Deployment; no kubelet runs them."""

    def __init__(self, memcacheds: Seen) -> None:
        self._memcacheds = memcacheds
        self.asked_for_events = 0
        self.may_list_events = True
        answer = memcacheds.world.cluster.handle

        async def counted(request: ApiRequest) -> ApiResponse:
            if request.method == "GET" and request.path.endswith("/events"):
                self.asked_for_events += 1
                if not self.may_list_events:
                    raise StatusError(403, "Forbidden", "by the test")
            return await answer(request)

        memcacheds.world.cluster.handle = counted  # type: ignore[method-assign]

    async def create(self, name: str, **status: Any) -> None:
        labels = {"app": "memcached", "memcached_cr": "m"}
        spec = {"schedulerName": "none", "containers": [{"name": "memcached", "image": "image"}]}
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        await self._memcacheds.api.create("pods", NAMESPACE, body)
        await self.say(name, **status)

    async def say(self, name: str, **status: Any) -> None:
        """Write the status of a pod, as a kubelet does."""
        api = self._memcacheds.api
        found = api.peek("pods", NAMESPACE, name)
        await api.update("pods", NAMESPACE, {**found, "status": status}, subresource="status")
        await asyncio.sleep(1)

    async def event(self, name: str, reason: str, message: str) -> None:
        found = self._memcacheds.api.peek("pods", NAMESPACE, name)
        about = {"kind": "Pod", "namespace": NAMESPACE, "name": name, "uid": found["metadata"]["uid"]}
        body = {"metadata": {"name": f"{name}.{reason.lower()}"}, "involvedObject": about, "type": "Warning"}
        body |= {"reason": reason, "message": message, "lastTimestamp": timestamp()}
        await self._memcacheds.api.create("events", NAMESPACE, body)

    def condition(self, kind: str) -> tuple[str, str, str]:
        """Return status, reason and message of the Memcached's condition of this type."""
        conditions = self._memcacheds.status("m")["conditions"]
        found = next(each for each in conditions if each["type"] == kind)
        return found["status"], found["reason"], found.get("message", "")


@asynccontextmanager
async def pods_of(size: int) -> AsyncIterator[tuple[Seen, Pods]]:
    """Run the operator with the Memcached m; yield an observer, and a helper that creates pods of m."""
    async with seen(MemcachedOperator) as memcacheds:
        await memcacheds.create("m", {"size": size})
        await asyncio.sleep(5)
        yield memcacheds, Pods(memcacheds)


FINE = ("False", "AsExpected", "")


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_memcached_status_nodes_omit_terminated_pods(phase: str):
    async with pods_of(0) as (memcacheds, pods):
        await pods.create("a", phase="Running")
        await pods.create("b", phase="Running")
        assert memcacheds.status("m")["nodes"] == ["a", "b"]
        await pods.say("b", phase=phase, reason="Evicted", message="The node was low on resource: memory.")
        assert memcacheds.status("m")["nodes"] == ["a"]
        assert memcacheds.status("m")["nodeCount"] == 1
        assert pods.condition("Degraded") == FINE


async def test_memcached_degraded_condition_is_stable_while_a_server_crash_loops():
    async with pods_of(1) as (memcacheds, pods):
        line = "Cannot set item size limit higher than 1/2 of memory max."
        ended = terminated(71, "Error", f"starting\n{line}\n")
        waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}}
        await pods.create("web", phase="Running", containerStatuses=[container(ended)])
        message = f"1 of 2 pods: web: container memcached ended with exit code 71: {line}"
        wanted = ("True", "CrashLoopBackOff", message)
        assert pods.condition("Degraded") == wanted
        written = memcacheds.writes
        for restarts in range(1, 6):
            more = {"lastState": ended, "restartCount": restarts}
            started = {"running": {"startedAt": timestamp()}}
            for state in (started, ended, waiting):
                await pods.say("web", phase="Running", containerStatuses=[container(state, **more)])
                assert pods.condition("Degraded") == wanted
        assert memcacheds.writes == written
        assert (await memcacheds.events_of("m")).count(("CrashLoopBackOff", 1)) == 1
        running = container(started, ready=True, lastState=ended, restartCount=5)
        await pods.say("web", phase="Running", containerStatuses=[running])
        assert pods.condition("Degraded") == wanted
        await asyncio.sleep(61)
        assert pods.condition("Degraded") == FINE


async def test_memcached_degraded_condition_quotes_the_pod_event_about_a_failed_mount():
    async with pods_of(1) as (memcacheds, pods):
        at = timestamp()
        scheduled = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]
        creating = container({"waiting": {"reason": "ContainerCreating"}})
        await pods.create("web", phase="Pending", conditions=scheduled, containerStatuses=[creating])
        await pods.event("web", "FailedMount", 'MountVolume.SetUp failed for volume "data"')
        await asyncio.sleep(5)
        assert pods.condition("Degraded") == FINE
        assert pods.asked_for_events == 0
        await asyncio.sleep(5)
        wanted = ("True", "FailedMount", '1 of 2 pods: web: MountVolume.SetUp failed for volume "data"')
        assert pods.condition("Degraded") == wanted
        await memcacheds.patch("m", metadata={"labels": {"look": "again"}})
        await asyncio.sleep(10)
        assert pods.asked_for_events == 1
        await asyncio.sleep(300)
        assert pods.asked_for_events == 11
        assert pods.condition("Degraded") == wanted
        ready = [{"type": "Ready", "status": "True", "lastTransitionTime": at}]
        running = container({"running": {"startedAt": at}}, ready=True)
        await pods.say("web", phase="Running", conditions=[*scheduled, *ready], containerStatuses=[running])
        assert pods.condition("Degraded") == FINE
        await asyncio.sleep(300)
        assert pods.asked_for_events == 11


async def test_memcached_is_reconciled_without_the_right_to_list_events():
    async with pods_of(1) as (memcacheds, pods):
        pods.may_list_events = False
        scheduled = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp()}]
        await pods.create("web", phase="Pending", conditions=scheduled)
        await asyncio.sleep(20)
        assert pods.asked_for_events == 1
        assert pods.condition("Degraded") == FINE
        assert "web" in memcacheds.status("m")["nodes"]


async def test_memcached_is_not_degraded_while_its_pods_start_normally():
    async with seen(MemcachedOperator) as memcacheds:
        pods = Pods(memcacheds)
        await memcacheds.create("m", {"size": 5})
        await asyncio.sleep(60)
        assert pods.condition("Degraded") == FINE
        assert pods.asked_for_events == 0
        assert {reason for reason, _ in await memcacheds.events_of("m")} == {"Created", "ScalingReplicaSet"}


async def test_memcached_degraded_condition_names_unschedulable_pods_within_15_seconds():
    async with seen(MemcachedOperator) as memcacheds:
        pods = Pods(memcacheds)

        async def set_unschedulable(value: bool | None) -> None:
            for node in memcacheds.api.list("nodes", ""):
                change = {"spec": {"unschedulable": value}}
                await memcacheds.api.patch("nodes", "", node["metadata"]["name"], change)

        await set_unschedulable(True)
        await memcacheds.create("m", {"size": 2})
        await asyncio.sleep(5)
        assert pods.condition("Degraded") == FINE
        await asyncio.sleep(10)
        status, reason, message = pods.condition("Degraded")
        assert (status, reason) == ("True", "Unschedulable")
        assert message.startswith("2 of 2 pods: m-")
        assert pods.condition("Available")[:2] == ("False", "Unschedulable")
        assert pods.condition("Progressing")[:2] == ("True", "Unschedulable")
        assert pods.condition("Progressing")[2].startswith("0 of 2 replicas are ready; 2 of 2 pods: ")
        await set_unschedulable(None)
        await asyncio.sleep(30)
        assert pods.condition("Degraded") == FINE
        assert (await memcacheds.events_of("m")).count(("Unschedulable", 1)) == 1


@pytest.mark.parametrize(
    ("old", "new", "warned"),
    [
        *((None, 1001, True), (None, 10_000, True), (3, 1001, True), (1001, 1002, True)),
        *((1002, 1001, False), (2000, 2000, False), (2000, 0, False)),
    ],
)
async def test_memcached_webhook_warns_of_a_size_above_1000_only_on_creation_or_growth(
    old: int | None, new: int, warned: bool
):
    before = None if old is None else memcached(old)
    asked = request(Memcached, "CREATE" if old is None else "UPDATE")
    said = list(await without_manager(MemcachedOperator).warn_of_many(before, memcached(new), asked))
    assert len(said) == warned
    for warning in said:
        assert warning.startswith(f"spec.size: {new} ")
        assert "1000" in warning
