from __future__ import annotations

import asyncio
from typing import Any

import pytest

from examples.workloads.errors import Failure
from examples.workloads.namespace import OURS, clear_leftovers, create_namespace, remove_namespace
from manager.api import ObjectMeta
from manager.api.core_v1 import Namespace
from manager.client import Client
from manager.kube.errors import AlreadyExists, ConnectionLost
from tests.support.scripted_wire import LostAfter, LostBefore, Reply, ScriptedWire, Sent

pytestmark = pytest.mark.virtual_time

ALL, ONE = "/api/v1/namespaces", "/api/v1/namespaces/n"
STUCK = {"type": "NamespaceContentRemaining", "status": "True", "message": "some widgets remain"}


class NamespaceServer:
    """Keeps the one namespace; once deleted, it takes `seconds` to go."""

    def __init__(self, wire: ScriptedWire, *, seconds: float = 3.0) -> None:
        self._seconds = seconds
        self.namespace: dict[str, Any] | None = None
        wire.on("GET", ONE, self.get)
        wire.on("POST", ALL, self.create)
        wire.on("DELETE", ONE, self.delete)

    def get(self, _: Sent) -> Reply:
        return Reply.json(self.namespace) if self.namespace else Reply.status(404, "NotFound")

    def create(self, sent: Sent) -> Reply:
        if self.namespace:
            return Reply.status(409, "AlreadyExists", 'namespaces "n" already exists')
        self.namespace = sent.json()
        self.namespace["metadata"]["uid"] = "u"
        return Reply.json(self.namespace, status=201)

    def delete(self, sent: Sent) -> Reply:
        assert self.namespace is not None
        assert sent.json()["preconditions"] == {"uid": self.namespace["metadata"]["uid"]}
        self.namespace["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
        self.namespace["status"] = {"conditions": [STUCK]}
        asyncio.get_running_loop().call_later(self._seconds, self.remove)
        return Reply.json(self.namespace)

    def remove(self) -> None:
        self.namespace = None

    def has(self, *, uid: str = "u", ours: bool = True) -> Namespace:
        labels = dict([OURS]) if ours else {"app.kubernetes.io/managed-by": "Helm"}
        namespace = Namespace(metadata=ObjectMeta(name="n", uid=uid, labels=labels))
        self.namespace = namespace.to_wire()
        return namespace


async def test_a_create_whose_answer_was_lost_is_found_to_have_worked(client: Client, wire: ScriptedWire):
    server = NamespaceServer(wire)
    wire.on("POST", ALL, LostAfter(server.create))
    assert (await create_namespace(client, "n")).metadata.uid == "u"
    wire.on("POST", ALL, LostBefore())
    server.remove()
    with pytest.raises(ConnectionLost):
        await create_namespace(client, "n")


async def test_the_namespace_of_another_run_is_not_taken_for_this_ones(client: Client, wire: ScriptedWire):
    NamespaceServer(wire).has()
    with pytest.raises(AlreadyExists):
        await create_namespace(client, "n")


async def test_removing_waits_until_it_has_gone(client: Client, wire: ScriptedWire):
    server = NamespaceServer(wire)
    await remove_namespace(client, server.has(), timeout=10)
    assert server.namespace is None
    assert len(wire.sent("DELETE")) == 1
    assert asyncio.get_running_loop().time() < 4


async def test_removing_is_tried_again_while_the_server_is_away(
    client: Client, wire: ScriptedWire, capsys: pytest.CaptureFixture[str]
):
    server = NamespaceServer(wire)
    wire.on(
        "DELETE", ONE, LostBefore(), LostBefore(), Reply.status(500, "InternalError", "boom"), server.delete
    )
    await remove_namespace(client, server.has(), timeout=60)
    assert server.namespace is None
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2  # each problem once
    assert said[1] == "deleting namespace n: boom; trying again"


async def test_another_namespace_of_that_name_is_not_removed(client: Client, wire: ScriptedWire):
    server = NamespaceServer(wire)
    mine = server.has()
    server.has(uid="another")
    await remove_namespace(client, mine, timeout=10)
    assert not wire.sent("DELETE")


async def test_what_holds_a_namespace_is_told(client: Client, wire: ScriptedWire):
    server = NamespaceServer(wire, seconds=1000)
    with pytest.raises(Failure, match="n has not gone within 10s of being deleted: some widgets remain"):
        await remove_namespace(client, server.has(), timeout=10)


async def test_leftovers_are_cleared_and_what_is_not_ours_is_left(client: Client, wire: ScriptedWire):
    server = NamespaceServer(wire)
    await clear_leftovers(client, "n", timeout=10)
    server.has()
    await clear_leftovers(client, "n", timeout=10)
    assert server.namespace is None
    server.has(ours=False)
    with pytest.raises(Failure, match="was not made by this program"):
        await clear_leftovers(client, "n", timeout=10)
    assert len(wire.sent("DELETE")) == 1
