from __future__ import annotations

import asyncio

import pytest

from manager.client import Client
from manager.kube.errors import Forbidden
from tests.support.scripted_wire import Reply, ScriptedWire
from tests.unit.cache.objects import Pod, pod
from tests.unit.cache.server import Listed, PodServer, page

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def server(wire: ScriptedWire) -> PodServer:
    server = PodServer(wire)
    server.on("list", page(1))
    return server


def names(pods: list[Pod]) -> list[str]:
    return [each.metadata.name for each in pods]


async def test_live_list_yields_the_whole_list_first_and_after_every_change(
    client: Client, server: PodServer
):
    stream = Listed(5, ("b", 2), ("a", 1))
    server.on("stream", stream)
    async with client.watch(Pod) as live:
        assert names(await anext(live)) == ["a", "b"]
        stream.event("ADDED", pod("c", 6))
        assert names(await anext(live)) == ["a", "b", "c"]
        stream.event("DELETED", pod("a", 7))
        assert names(await anext(live)) == ["b", "c"]


async def test_live_list_yields_an_empty_list_when_no_object_exists(client: Client, server: PodServer):
    server.on("stream", Listed(5))
    async with client.watch(Pod) as live:
        assert await anext(live) == []
        with pytest.raises(TimeoutError):  # and nothing more, until something changes
            await asyncio.wait_for(anext(live), 10)


async def test_live_list_yields_only_the_latest_state_to_a_slow_reader(client: Client, server: PodServer):
    stream = Listed(5)
    server.on("stream", stream)
    async with client.watch(Pod) as live:
        await anext(live)
        for number in range(10):
            stream.event("ADDED", pod(f"p{number}", 6 + number))
        await asyncio.sleep(1)
        assert len(await anext(live)) == 10
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(live), 10)


async def test_live_list_continues_when_its_watch_breaks(client: Client, server: PodServer):
    first, second = Listed(5, ("a", 1)), Listed(9, ("b", 8))
    server.on("stream", first, second)
    server.on("watch", Reply.status(410, "Expired"))
    async with client.watch(Pod) as live:
        assert names(await anext(live)) == ["a"]
        first.cut()
        assert names(await anext(live)) == ["b"]
        assert live.problem is None


async def test_live_list_raises_the_error_of_the_first_request(
    client: Client, server: PodServer, wire: ScriptedWire
):
    server.on("check", Reply.status(403, "Forbidden", "no pods for you"))
    with pytest.raises(Forbidden, match="no pods for you"):
        async with client.watch(Pod):
            pass
    assert wire.in_progress == 0


async def test_live_list_sends_its_selectors_to_the_server(client: Client, wire: ScriptedWire):
    server = PodServer(wire, "/api/v1/namespaces/n/pods")
    server.on("check", page(1))
    server.on("stream", Listed(5))
    selection = {"label_selector": "app=web", "field_selector": "metadata.name=p"}
    async with client.watch(Pod, namespace="n", **selection) as live:
        await anext(live)
    wanted = {"labelSelector": "app=web", "fieldSelector": "metadata.name=p"}
    for sent in (*server.sent("list"), *server.sent("stream")):
        assert wanted.items() <= sent.query.items()


async def test_live_list_closes_the_watch_on_exit(client: Client, server: PodServer, wire: ScriptedWire):
    stream = Listed(5)
    server.on("stream", stream)
    async with client.watch(Pod) as live:
        await anext(live)
        assert not stream.closed
    assert stream.closed
    assert wire.in_progress == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_live_list_names_an_undecodable_object_and_keeps_the_others(client: Client, server: PodServer):
    stream = Listed(5, ("a", 1))
    server.on("stream", stream)
    async with client.watch(Pod) as live:
        assert (await anext(live)).undecodable == ()
        stream.event("ADDED", pod("odd", 6) | {"spec": "none"})
        seen = await anext(live)
        assert names(seen) == ["a"]
        assert [error.key.name for error in seen.undecodable] == ["odd"]
