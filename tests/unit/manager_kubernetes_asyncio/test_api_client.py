"""kubernetes-asyncio with the manager's transport."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from devcluster import DevCluster
from devcluster.api.pod_sessions import Process
from manager.api import ObjectKey
from manager.cache import Cache
from manager.client import Client
from manager.controller.failure import Failure
from manager.kube.errors import ConfigError, Conflict, DeadlineExceeded, Fenced, NotFound, ProtocolError
from manager.kube.transport import Transport
from manager_kinds.core_v1 import ConfigMap
from manager_tools.testing import LocalWire
from tests.support.cluster_wire import ClusterServer
from tests.support.effort import Effort
from tests.support.running_pods import create_running_pod
from tests.support.scripted_wire import Reply, ScriptedWire, Stall, Stream
from tests.unit.cache.objects import running
from tests.unit.connected import connected

pytestmark = [pytest.mark.virtual_time, pytest.mark.filterwarnings("default::DeprecationWarning")]

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LOG = "/api/v1/namespaces/default/pods/web/log"
KEY = ObjectKey("default", "a")


@pytest.fixture
async def core(wire: ScriptedWire, client: Client, cache: Cache, models: Any) -> AsyncIterator[Any]:
    """Run a control plane, and a cache of ConfigMaps whose watches get no events."""
    async with DevCluster(port=None, controllers=False) as cluster:
        server = ClusterServer(cluster)
        server.serve(wire)
        cache.informer(ConfigMap)
        async with running(cache):
            await cache.wait_synced()
            server.silence()
            yield models.CoreV1Api(client.kubernetes_client())


def config_map(models: Any, name: str = "a", **data: str) -> Any:
    return models.V1ConfigMap(metadata=models.V1ObjectMeta(name=name), data=data)


async def test_kubernetes_asyncio_reads_and_writes_objects(core: Any, models: Any, wire: ScriptedWire):
    await core.create_namespaced_config_map("default", config_map(models, x="1"))
    await core.patch_namespaced_config_map("a", "default", {"data": {"y": "2"}})
    found = await core.read_namespaced_config_map("a", "default")
    assert found.data == {"x": "1", "y": "2"}
    listed = await core.list_namespaced_config_map("default", label_selector="!absent", limit=10)
    assert [each.metadata.name for each in listed.items] == ["a"]
    (created,) = wire.sent("POST", CONFIG_MAPS)
    assert created.query == {"fieldManager": "test"}
    assert created.headers["User-Agent"] == "test"
    (asked,) = [each for each in wire.sent("GET", CONFIG_MAPS) if "limit" in each.query]
    assert asked.query["labelSelector"] == "!absent"


async def test_cached_read_sees_each_write_of_kubernetes_asyncio(core: Any, models: Any, client: Client):
    await core.create_namespaced_config_map("default", config_map(models, x="1"))
    found = await client.get(ConfigMap, KEY)
    assert found.data == {"x": "1"}
    await core.patch_namespaced_config_map("a", "default", {"data": {"x": "2"}})
    assert (await client.get(ConfigMap, KEY)).data == {"x": "2"}
    changed = await core.read_namespaced_config_map("a", "default")
    changed.data = {"x": "3"}
    await core.replace_namespaced_config_map("a", "default", changed)
    assert (await client.get(ConfigMap, KEY)).data == {"x": "3"}
    await core.delete_namespaced_config_map("a", "default")
    assert await client.find(ConfigMap, KEY) is None
    held = config_map(models)
    held.metadata.finalizers = ["example.com/held"]
    await core.create_namespaced_config_map("default", held)
    await core.delete_namespaced_config_map("a", "default")
    assert (await client.get(ConfigMap, KEY)).metadata.deletion_timestamp is not None


async def test_kubernetes_asyncio_dry_run_does_not_change_the_cache(core: Any, models: Any, client: Client):
    await core.create_namespaced_config_map("default", config_map(models, "b"), dry_run="All")
    assert await client.find(ConfigMap, ObjectKey("default", "b")) is None
    await core.create_namespaced_config_map("default", config_map(models))
    await core.delete_namespaced_config_map("a", "default", dry_run="All")
    await core.delete_namespaced_config_map("a", "default", body=models.V1DeleteOptions(dry_run=["All"]))
    assert (await client.get(ConfigMap, KEY)).metadata.deletion_timestamp is None


async def test_kubernetes_asyncio_can_write_objects_of_uncached_kinds(core: Any, models: Any):
    secret = models.V1Secret(metadata=models.V1ObjectMeta(name="s"), string_data={"a": "b"})
    found, status, headers = await core.create_namespaced_secret_with_http_info("default", secret)
    assert (found.data, status, headers["content-type"]) == ({"a": "Yg=="}, 201, "application/json")
    await core.delete_namespaced_secret("s", "default")
    await core.delete_collection_namespaced_config_map("default")


async def test_kubernetes_asyncio_call_raises_an_error_that_is_also_a_manager_error(core: Any, models: Any):
    with pytest.raises(NotFound, match=r'^configmaps "a" not found$') as missing:
        await core.read_namespaced_config_map("a", "default")
    assert isinstance(missing.value, models.ApiException)
    assert missing.value.status == 404
    assert orjson.loads(missing.value.body)["reason"] == "NotFound"
    await core.create_namespaced_config_map("default", config_map(models))
    stale = config_map(models)
    stale.metadata.resource_version = "1"
    with pytest.raises(Conflict) as lost:
        await core.replace_namespaced_config_map("a", "default", stale)
    assert Failure.of(lost.value) is Failure.RACE


async def test_kubernetes_asyncio_writes_fail_and_reads_succeed_after_the_lease_is_lost(
    core: Any, models: Any, wire: ScriptedWire, transport: Transport
):
    await core.create_namespaced_config_map("default", config_map(models, x="1"))
    transport.fence("the lease is lost")
    sent = len(wire.requests)
    with pytest.raises(Fenced, match="the lease is lost"):
        await core.patch_namespaced_config_map("a", "default", {"data": {"x": "2"}})
    assert len(wire.requests) == sent
    assert (await core.read_namespaced_config_map("a", "default")).data == {"x": "1"}


@pytest.mark.parametrize("timeout", [3, 3.0, (1, 2)])
async def test_kubernetes_asyncio_request_fails_at_its_request_timeout(
    core: Any, wire: ScriptedWire, timeout: Any
):
    wire.on("GET", CONFIG_MAPS, Stall())
    began = asyncio.get_running_loop().time()
    with pytest.raises(DeadlineExceeded):
        await core.list_namespaced_config_map("default", _request_timeout=timeout)
    assert asyncio.get_running_loop().time() - began == pytest.approx(3)


async def test_kubernetes_asyncio_watch_yields_events_and_reconnects_after_silence(
    core: Any, wire: ScriptedWire, package: Any
):
    first, second = Stream(), Stream()
    wire.on("GET", CONFIG_MAPS, first, second)
    metadata = {"name": "a", "resourceVersion": "5"}
    first.event("ADDED", {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})
    second.event("DELETED", {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})
    seen = []
    async with package.watch.Watch().stream(core.list_namespaced_config_map, "default") as watch:
        async for event in watch:
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 2:
                break
    assert seen == [("ADDED", "a"), ("DELETED", "a")]
    await asyncio.sleep(0)
    assert first.closed
    assert second.closed
    assert wire.sent("GET", CONFIG_MAPS)[-1].query["resourceVersion"] == "5"


async def test_response_with_preload_content_false_can_be_read_as_a_whole_or_by_line(
    core: Any, models: Any, wire: ScriptedWire
):
    for text in (b"one\ntwo", b""):
        wire.on("GET", LOG, Reply(body=text))
        lines = await core.read_namespaced_pod_log("web", "default", _preload_content=False)
        assert b"".join([line async for line in lines.content]) == text
        whole = await core.read_namespaced_pod_log("web", "default", _preload_content=False)
        assert await whole.read() == text
    created = await core.create_namespaced_config_map("default", config_map(models), _preload_content=False)
    assert created.status == 201
    assert orjson.loads(await created.read())["metadata"]["name"] == "a"


async def test_response_with_preload_content_false_is_limited_in_size(
    core: Any, wire: ScriptedWire, monkeypatch: pytest.MonkeyPatch
):
    for bound in ("LONGEST", "LONGEST_LINE"):
        monkeypatch.setattr(f"manager_kubernetes_asyncio.api_client.{bound}", 3)
    wire.on("GET", LOG, Reply(body=b"12345"))
    for read in ("read", "readline"):
        answer = await core.read_namespaced_pod_log("web", "default", _preload_content=False)
        with pytest.raises(ProtocolError, match="is longer than 3 bytes"):
            await getattr(answer, read)()


async def test_unfinished_log_stream_closes_its_connection_when_its_response_is_closed(
    core: Any, wire: ScriptedWire
):
    stream = Stream()
    wire.on("GET", LOG, stream)
    stream.feed(b"one\n")
    answer = await core.read_namespaced_pod_log("web", "default", follow=True, _preload_content=False)
    assert await answer.content.readline() == b"one\n"
    answer.close()
    await asyncio.sleep(0.1)
    assert stream.closed


@pytest.mark.parametrize("ends", ["read", "cancelled", "failed"])
async def test_closed_response_closes_its_connection_when_its_running_read_ends(
    core: Any, wire: ScriptedWire, ends: str
):
    stream = Stream()
    wire.on("GET", LOG, stream)
    answer = await core.read_namespaced_pod_log("web", "default", follow=True, _preload_content=False)
    reading = asyncio.create_task(answer.content.readline())
    await asyncio.sleep(0.1)
    answer.close()
    await asyncio.sleep(0.1)
    assert not stream.closed
    {"read": lambda: stream.feed(b"one\n"), "cancelled": reading.cancel, "failed": stream.cut}[ends]()
    await asyncio.gather(reading, return_exceptions=True)
    await asyncio.sleep(0.1)
    assert stream.closed


async def test_api_client_refuses_unsupported_headers_and_methods(core: Any, models: Any):
    with pytest.raises(models.ApiValueError, match="sends no header impersonate-user"):
        await core.list_namespaced_config_map("default", _headers={"Impersonate-User": "root"})
    with pytest.raises(models.ApiValueError, match="sends no HEAD requests"):
        await core.connect_head_namespaced_pod_proxy("web", "default")


async def test_api_client_is_created_once_and_its_close_does_not_close_the_transport(
    client: Client, core: Any
):
    async with client.kubernetes_client() as api:
        assert client.kubernetes_client() is api
    await core.list_namespaced_config_map("default")


async def test_missing_kubernetes_asyncio_error_names_the_extra_to_install(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delitem(sys.modules, "manager_kubernetes_asyncio.api_client", raising=False)
    for name in ("kubernetes_asyncio", "kubernetes_asyncio.client"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        ConfigError, match=r"kubernetes_asyncio.*install operator-manager\[kubernetes-asyncio\]"
    ):
        client.kubernetes_client()


@pytest.fixture
async def pods(models: Any) -> AsyncIterator[tuple[DevCluster, Any]]:
    async with DevCluster(port=None, controllers=False) as cluster:
        await create_running_pod(cluster)
        yield cluster, models.CoreV1Api(connected(LocalWire(cluster)).client.kubernetes_client())


async def echo(process: Process) -> int:
    """Print the last word of the command and then stdin; return the exit code."""
    await process.write(f"{process.command[-1]} ".encode())
    await process.write(await process.read())
    return 0


async def test_exec_output_that_arrives_byte_by_byte_is_collected_at_low_cost():
    from manager_kubernetes_asyncio.api_client import _collected  # noqa: PLC0415 - 225 ms, 42 MB, for some tests

    left = iter(range(200_000))

    async def receive_message() -> bytes | None:
        return None if next(left, None) is None else b"\1a"

    socket: Any = nullcontext(SimpleNamespace(receive_message=receive_message))
    with Effort() as spent:
        assert len((await _collected(socket)).data) == 200_000
    assert spent.units < 50


async def test_kubernetes_asyncio_exec_returns_a_websocket_when_preload_content_is_false(
    pods: tuple[DevCluster, Any], models: Any
):
    cluster, core = pods
    cluster.sessions.exec = echo
    run = core.connect_get_namespaced_pod_exec
    assert await run("web", "default", command=["echo", "a b"], stdout=True) == "a b "
    flags = {"stdin": True, "stdout": True, "_preload_content": False}
    async with await run("web", "default", command="cat", **flags) as socket:
        await socket.send_bytes(b"\0hello")
        received = []
        while (message := await socket.receive_message()) is not None:
            received.append(message)
    assert b"\x01hello" in received
    assert received[-1] == b'\x03{"metadata":{},"status":"Success"}'
    opening = await run("other", "default", command="ls", **flags)
    with pytest.raises(models.ApiException, match='pods "other" not found'):
        await opening.__aenter__()
