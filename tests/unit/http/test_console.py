"""What a running manager tells of its objects, and whom."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest

from apis.tutorial.v1.foo import Foo, FooSpec
from controllers.tutorial.foo import FooOperator
from manager.access.access import Access
from manager.api import ObjectMeta
from manager.console import console_pages
from manager.kube.transport import Transport
from manager.metrics import Metrics
from manager.testing import World, operated
from tests.support.scripted_wire import Reply, ScriptedWire, Sent
from tests.unit.http.conftest import ServePages, Site

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
RIGHTS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
PAGE = "/api/objects/foos.tutorial.my.domain/default/lonely"


def asked(wire: ScriptedWire) -> list[Any]:
    return [sent.json()["spec"] for sent in wire.sent("POST", RIGHTS)]


def api_server() -> ScriptedWire:
    """Knows `ann`, who may get the object, and `bob`, who may not."""
    wire = ScriptedWire()

    def token(sent: Sent) -> Reply:
        name = sent.json()["spec"]["token"]
        return Reply.json({"status": {"authenticated": name in {"ann", "bob"}, "user": {"username": name}}})

    wire.on("POST", TOKENS, token)
    wire.on(
        "POST", RIGHTS, lambda sent: Reply.json({"status": {"allowed": sent.json()["spec"]["user"] == "ann"}})
    )
    return wire


async def get(site: Site, path: str = PAGE, **headers: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{site.address}{path}", headers=headers) as answer,
    ):
        return answer.status, await answer.text()


@asynccontextmanager
async def lonely() -> AsyncIterator[World]:
    """A manager with a Foo whose friend is not there."""
    foo = Foo(metadata=ObjectMeta(name="lonely", namespace="default"), spec=FooSpec(name="jack"))
    async with operated(FooOperator, objects=[foo]) as world:
        await world.until(foo, lambda it: it.status.conditions)
        yield world


async def test_what_was_done_with_an_object_is_told_on_this_machine(serve_pages: ServePages):
    async with lonely() as world:
        site = await serve_pages(console_pages(world.manager, None))
        status, text = await get(site)
        assert status == 200
        [controller] = orjson.loads(text)["controllers"]
        assert (controller["controller"], controller["state"]) == ("foo", "running")
        run = controller["runs"][0]
        assert (run["outcome"], run["why"], run["writes"]) == ("success", "Foo found", 1)
        assert run["triggers"] == [{"why": "found", "text": "Foo found", "source": "for", "kind": "Foo"}]
        assert (await get(site, "/api/objects/bars.example.com/lonely"))[0] == 404


@pytest.mark.parametrize("host", ["evil.example.com", "evil.example.com:8082", "10.0.0.1:8082", "[::2]:1"])
async def test_whoever_comes_by_a_name_that_may_point_anywhere_is_told_nothing(
    serve_pages: ServePages, host: str
):
    async with lonely() as world:
        site = await serve_pages(console_pages(world.manager, None))
        status, text = await get(site, Host=host)
        assert (status, text) == (421, "not a name of this machine\n")
        for own in ("localhost", "127.0.0.1:1", "[::1]:8082"):
            assert (await get(site, Host=own))[0] == 200


async def test_in_a_cluster_only_who_may_get_the_object_is_told(serve_pages: ServePages):
    wire = api_server()
    transport = Transport(wire, metrics=Metrics(), rng=random.Random(1), user_agent="test")
    async with lonely() as world:
        site = await serve_pages(console_pages(world.manager, Access(transport, rng=random.Random(1))))
        for headers, expected in (
            ({}, 401),
            ({"Authorization": "Bearer eve"}, 401),
            ({"Authorization": "Bearer bob"}, 403),
        ):
            status, text = await get(site, **headers)
            assert status == expected
            assert "lonely" not in text
        assert (await get(site, Authorization="Bearer ann"))[0] == 200
    assert asked(wire)[-1]["resourceAttributes"] == {
        "verb": "get",
        "group": "tutorial.my.domain",
        "resource": "foos",
        "namespace": "default",
        "name": "lonely",
    }
