"""Console pages that stay open, in virtual time: delay of updates, and cost."""

from __future__ import annotations

import asyncio
import gc
import random
import re
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from apis.cache.v1.memcached import Memcached, MemcachedSpec
from apis.tutorial.v1.foo import Foo, FooSpec
from controllers.cache.memcached import MemcachedOperator
from controllers.tutorial.foo import FooOperator
from manager import Context, Operator
from manager.api import GroupVersionKind, ObjectKey, ObjectMeta
from manager.server import server as server_module
from manager.server.access import User
from manager_console.diagnosis.collect import Collected, Collector
from manager_console.overview import Figures, kinds, search, sources
from manager_console.pages import Console
from manager_tools.testing import World, operated
from tests.support import ROOT
from tests.support.effort import turns_of_others
from tests.support.running_pods import create_running_pod
from tests.unit.manager_console.test_pages import console_of

pytestmark = pytest.mark.virtual_time

WITHIN = 2.0
SCRIPT = (ROOT / "manager_console/static/console.js").read_text()
PAUSE = int(re.findall(r"const pause = (\d+);", SCRIPT)[0]) / 1000
"""Seconds from a response to the browser's next request."""

FOO, WEB = (
    "/objects/foos.tutorial.my.domain/default/lonely",
    "/objects/memcacheds.cache.example.com/default/web",
)


@asynccontextmanager
async def shop() -> AsyncIterator[World]:
    """Run a manager with a ready Memcached, and a Foo that names a nonexistent pod as its friend."""
    foo = Foo(metadata=ObjectMeta(name="lonely", namespace="default"), spec=FooSpec(name="jack"))
    memcached = Memcached(metadata=ObjectMeta(name="web", namespace="default"), spec=MemcachedSpec(size=1))
    async with operated(FooOperator, MemcachedOperator, objects=[foo, memcached]) as world:
        await world.until(foo, lambda it: it.status.conditions)
        await world.until(memcached, lambda it: it.status.ready_replicas == 1)
        await asyncio.sleep(30)
        yield world


async def fetch(console: Console, path: str) -> str:
    """Return the part of a page that is updated while the page is open."""
    target = f"{path}{'&' if '?' in path else '?'}part=1"
    names = dict(zip(("resource", "namespace", "name"), path.strip("/").split("/")[1:], strict=False))
    page = {"": "/", "search": "/search"}.get(
        path.strip("/").partition("?")[0], "/objects/{resource}/{namespace}/{name}"
    )
    request = make_mocked_request("GET", target, headers={"Host": "localhost"}, match_info=names)
    [handler] = [each.handler for each in console.routes() if (each.method, each.path) == ("GET", page)]
    response = await handler(request)
    assert isinstance(response, web.Response)
    assert response.status == 200
    assert isinstance(response.body, bytes)
    return response.body.decode()


async def poll_until_shown(console: Console, path: str, word: str) -> None:
    """Request a page as an open browser does, until the page contains the word."""
    while True:
        if word in await fetch(console, path):
            return
        await asyncio.sleep(PAUSE)


async def another_foo(world: World) -> None:
    await world.create(Foo(metadata=ObjectMeta(name="other"), spec=FooSpec(name="jack")))


async def a_pod_hangs(world: World) -> None:
    """Delete a pod that has a finalizer; the pod is not cached, so no reconcile starts."""
    [pod] = world.cluster.client.list("pods", "default")
    name = pod["metadata"]["name"]
    patch = {"metadata": {"finalizers": ["example.com/hangs"]}}
    await world.cluster.client.patch("pods", "default", name, patch)
    await world.cluster.client.delete("pods", "default", name)


async def an_event(world: World) -> None:
    """Record an Event about the Memcached, as another program does."""
    web = await world.get(Memcached, "web")
    about = {"kind": "Memcached", "namespace": "default", "name": "web", "uid": web.metadata.uid}
    said = {"reason": "Unlucky", "message": "a meteorite", "type": "Warning", "count": 1}
    metadata = {"name": "e", "namespace": "default"}
    event = {"metadata": metadata, "involvedObject": about, "lastTimestamp": "2024-01-01T00:00:00Z", **said}
    await world.cluster.client.create("events", "default", event)


async def a_pause(world: World) -> None:
    [controller] = [each for each in world.manager.controllers if each.name == "foo"]
    assert controller.queue is not None
    controller.queue.paused = True


async def the_friend_comes(world: World) -> None:
    await create_running_pod(world.cluster, "jack", node="")


@pytest.mark.parametrize(
    ("path", "cause", "word"),
    [
        ("/", another_foo, "2</a>"),
        ("/", a_pause, "Resume foo"),
        (FOO, the_friend_comes, "All is well"),
        (FOO, a_pause, "does not reconcile the object until it is resumed"),
        (WEB, a_pod_hangs, "waits for the finalizer example.com/hangs"),
        (WEB, an_event, "a meteorite"),
        ("/search", another_foo, "default/other"),
        ("/search?state=not-ready", another_foo, "2 objects"),
        ("/search?state=not-ready", the_friend_comes, "Nothing found"),
    ],
)
async def test_console_page_shows_a_change_within_two_seconds(
    path: str, cause: Callable[[World], Awaitable[None]], word: str
):
    loop, rng = asyncio.get_running_loop(), random.Random(5)
    async with shop() as world:
        console = console_of(world)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            browsers = [group.create_task(poll_until_shown(console, path, word)) for _ in range(2)]
            await asyncio.sleep(10 + rng.random())
            assert not any(browser.done() for browser in browsers)
            await cause(world)
            began = loop.time()
        assert loop.time() - began <= WITHIN


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Collected]]:
    """Return a list of weak references to all data that the console collects."""
    found: list[weakref.ref[Collected]] = []
    collect = Collector.collect

    async def noted(collector: Collector, gvk: GroupVersionKind, key: ObjectKey) -> Collected:
        answer = await collect(collector, gvk, key)
        found.append(weakref.ref(answer))
        return answer

    monkeypatch.setattr(Collector, "collect", noted)
    return found


async def test_console_renders_a_page_once_for_concurrent_requests_of_a_user(
    collected: list[weakref.ref[Collected]],
):
    async with shop() as world:
        console = console_of(world)

        async def by_token(number: int) -> str:
            credential = ("authentication.kubernetes.io/credential-id", (f"JTI={number}",))
            server_module._asking.set(User("ann", extra=(credential,)))
            return await fetch(console, WEB)

        texts = await asyncio.gather(*map(by_token, range(50)))
        assert len(collected) == len(set(texts)) == 1
        del texts
        await asyncio.sleep(1)
        gc.collect()
        assert collected[0]() is None
        assert not console._made._values


async def test_console_pages_of_all_users_use_at_most_a_quarter_of_a_cpu(monkeypatch: pytest.MonkeyPatch):
    spent, loop, seconds = 0.0, asyncio.get_running_loop(), 0.1
    monkeypatch.setattr("time.thread_time", lambda: spent)
    collect = Collector.collect

    async def use_cpu(collector: Collector, gvk: GroupVersionKind, key: ObjectKey) -> Collected:
        nonlocal spent
        spent += seconds
        return await collect(collector, gvk, key)

    monkeypatch.setattr(Collector, "collect", use_cpu)
    async with shop() as world:
        console = console_of(world)
        began = loop.time()

        async def visit(user: str) -> None:
            server_module._asking.set(User(user))
            for path in (WEB, FOO) * 10:
                await fetch(console, path)

        await asyncio.gather(*(visit(f"user-{number}") for number in range(8)))
        assert spent == pytest.approx(8 * 20 * seconds)
        assert spent / (loop.time() - began) <= 0.26


async def test_overview_rates_count_each_reconcile_once_even_when_the_history_drops_its_record():
    async with operated(FooOperator) as world:
        [controller] = world.manager.controllers
        figures, count = Figures(controller), 0
        await asyncio.sleep(1)  # until the queue is empty
        for _ in range(4):
            for _ in range(15):  # the history keeps 20 records of one object
                controller.ask(ObjectKey("default", "nobody"), "ann")
                await asyncio.sleep(1)
            count += 15
            assert figures.rates()["runs"] == count
        assert figures.rates()["runs"] == count
        await asyncio.sleep(700)
        assert figures.rates()["runs"] == 0


class MoodyOperator(Operator[Foo]):
    """Operator whose reconcile fails, lasts for an hour or takes a second, as the Foo's `spec.name` says."""

    async def reconcile(self, foo: Foo, ctx: Context) -> None:
        if foo.spec.name == "fails":
            raise ValueError
        await asyncio.sleep(3600 if foo.spec.name == "lasts" else 1)


@pytest.mark.parametrize(
    ("state", "moods"),
    [
        ("", {"fails", "lasts", "takes"}),
        ("not-ready", {"fails"}),
        ("failing", {"fails"}),
        ("waiting", {"fails"}),
        ("running", {"lasts"}),
        ("slow", {"takes"}),
        ("stuck", {"fails", "lasts"}),
    ],
)
async def test_search_returns_a_limited_number_of_sorted_rows_in_the_given_state(
    monkeypatch: pytest.MonkeyPatch, state: str, moods: set[str]
):
    names = {f"f{each}": mood for each, mood in enumerate(("fails", "lasts", "takes") * 3)}
    foos = [Foo(metadata=ObjectMeta(name=name), spec=FooSpec(name=mood)) for name, mood in names.items()]
    async with operated(MoodyOperator, objects=foos) as world:
        await asyncio.sleep(30)
        everything, query = kinds(world.manager), {"name": "F", "state": state}
        rows, more = await search(world.manager, everything, query, 0.5)
        assert not more
        assert [row["key"].name for row in rows] == [name for name, mood in names.items() if mood in moods]
        monkeypatch.setattr("manager_console.overview.MOST_FOUND", 2)
        assert await search(world.manager, everything, query, 0.5) == (rows[:2], True)
        assert await search(world.manager, ["pets.example.com"], query) == ([], False)


async def test_search_lets_other_tasks_run_when_it_checks_many_objects():
    large = {"example.com/note": "x" * 4000}
    foos = [
        Foo(metadata=ObjectMeta(name=f"f{each}", annotations=large), spec=FooSpec(name="jack"))
        for each in range(30)
    ]
    async with operated(FooOperator, objects=foos) as world:
        await asyncio.sleep(30)
        [(_, informer)] = sources(world.manager)
        records = informer.list()
        informer.list = lambda **_: records * 700  # type: ignore[method-assign]
        look = search(world.manager, kinds(world.manager), {"state": "waiting"})
        assert await turns_of_others(look) >= 15
        look = search(world.manager, kinds(world.manager), {})
        assert await turns_of_others(look) >= 3, "a time slice has few large objects"
