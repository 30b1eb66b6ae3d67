from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from devcluster import DevCluster
from examples.workloads import program
from examples.workloads.errors import Failure
from examples.workloads.namespace import OURS, clear_leftovers, create_namespace, remove_namespace
from examples.workloads.options import Options
from manager.api import ObjectKey
from manager.client import Client
from manager.kube.errors import AlreadyExists, ConnectionLost
from manager_kinds.core_v1 import Namespace
from tests.support.cluster_wire import ClusterServer
from tests.support.scripted_wire import LostAfter, LostBefore, Reply, ScriptedWire, Sent

pytestmark = pytest.mark.virtual_time

ALL, ONE = "/api/v1/namespaces", "/api/v1/namespaces/n"


@pytest.fixture
async def server(wire: ScriptedWire) -> AsyncIterator[ClusterServer]:
    async with DevCluster(port=None) as cluster:
        server = ClusterServer(cluster)
        server.serve(wire)
        yield server


async def made(server: ClusterServer, **labels: str) -> Namespace:
    """Create the namespace `n` with these labels; the default is the label of this program."""
    metadata = {"name": "n", "labels": labels or dict([OURS])}
    return Namespace.model_validate(await server.api.create("namespaces", "", {"metadata": metadata}))


async def is_there(client: Client) -> bool:
    return await client.uncached.find(Namespace, ObjectKey("", "n")) is not None


async def test_create_namespace_succeeds_after_a_lost_response_but_not_for_an_existing_namespace(
    client: Client, wire: ScriptedWire, server: ClusterServer
):
    wire.on("POST", ALL, LostAfter(server.answer))
    await remove_namespace(client, await create_namespace(client, "n"), timeout=10)
    wire.on("POST", ALL, LostBefore())
    with pytest.raises(ConnectionLost):
        await create_namespace(client, "n")
    await made(server)
    wire.on("POST", ALL, server.answer)
    with pytest.raises(AlreadyExists):
        await create_namespace(client, "n")


async def test_create_namespace_returns_its_namespace_when_the_answer_was_an_error_of_the_server(
    client: Client, wire: ScriptedWire, server: ClusterServer
):
    async def create_and_fail(sent: Sent) -> Reply:
        await server.answer(sent)
        return Reply.status(500, "InternalError", "boom")

    wire.on("POST", ALL, create_and_fail)
    assert (await create_namespace(client, "n")).metadata.uid
    wire.on("GET", ONE, Reply.status(403, "Forbidden", "no"))
    with pytest.raises(Failure, match="it is unknown whether namespace n was created: boom"):
        await create_namespace(client, "n")


@pytest.mark.parametrize(
    ("status", "left_behind"), [(403, False), (500, True)], ids=["not created", "perhaps created"]
)
async def test_program_names_the_namespace_that_it_leaves_behind_if_the_namespace_may_exist(
    client: Client,
    wire: ScriptedWire,
    server: ClusterServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    status: int,
    left_behind: bool,
):
    @asynccontextmanager
    async def connect(*_: object, **__: object) -> AsyncIterator[Client]:
        yield client

    monkeypatch.setattr(program, "connect", connect)
    wire.on("POST", ALL, Reply.status(status, "", "boom"))
    options = Options(kubeconfig=None, context=None, namespace="n", image="image", timeout=10)
    assert await program.run(options) == 1
    assert ("left behind: namespace n" in capsys.readouterr().err) is left_behind


async def test_remove_namespace_retries_until_the_server_deletes_the_namespace(
    client: Client, wire: ScriptedWire, server: ClusterServer, capsys: pytest.CaptureFixture[str]
):
    failure = Reply.status(500, "InternalError", "boom")
    wire.on("DELETE", ONE, LostBefore(), LostBefore(), failure, server.answer)
    await remove_namespace(client, await made(server), timeout=60)
    assert not await is_there(client)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2  # each error is printed once
    assert said[1] == "deleting namespace n: boom; trying again"


async def test_remove_namespace_keeps_a_recreated_namespace_of_the_same_name(
    client: Client, wire: ScriptedWire, server: ClusterServer
):
    mine = await made(server)
    await remove_namespace(client, mine, timeout=10)
    await made(server)
    await remove_namespace(client, mine, timeout=10)
    assert await is_there(client)
    assert len(wire.sent("DELETE")) == 1


async def test_clear_leftovers_deletes_a_namespace_only_if_it_has_the_label_of_the_example(
    client: Client, wire: ScriptedWire, server: ClusterServer
):
    await clear_leftovers(client, "n", timeout=10)
    await made(server)
    await clear_leftovers(client, "n", timeout=10)
    assert not await is_there(client)
    await made(server, **{OURS[0]: "Helm"})
    with pytest.raises(Failure, match="was not created by this program"):
        await clear_leftovers(client, "n", timeout=10)
    assert len(wire.sent("DELETE")) == 1
