"""How soon a change is on a page that somebody sees: in virtual time, so by construction."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from apis.cache.v1.memcached import Memcached, MemcachedSpec
from apis.tutorial.v1.foo import Foo, FooSpec
from controllers.cache.memcached import MemcachedOperator
from controllers.tutorial.foo import FooOperator
from manager.api import GroupVersionKind, ObjectKey, ObjectMeta
from manager.console.changes import Changed
from manager.console.following import Following, Watches
from manager.console.live import Allowance, Feed
from manager.console.pages import Console, _part_of
from manager.console.search import Search, Wanted, kinds, sources
from manager.explain.judging import Verdict
from manager.explain.looking import Found, Listed, Looker, Node
from manager.kube.transport import Transport
from manager.metrics import Metrics
from manager.server import guard
from manager.server.reviews import User
from manager_tools.testing import World, operated
from tests.support.effort import turns_of_others
from tests.support.scripted_wire import ScriptedWire, Stream
from tests.unit.http.test_console import console_of

pytestmark = pytest.mark.virtual_time

WITHIN = 0.5


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its speed does not matter here."""
    monkeypatch.setattr("manager.console.live._SHARE", 1e9)


@asynccontextmanager
async def shop() -> AsyncIterator[World]:
    """A Foo that waits for jack, and a Memcached that is ready."""
    foo = Foo(metadata=ObjectMeta(name="lonely", namespace="default"), spec=FooSpec(name="jack"))
    memcached = Memcached(metadata=ObjectMeta(name="web", namespace="default"), spec=MemcachedSpec(size=1))
    async with operated(FooOperator, MemcachedOperator, objects=[foo, memcached]) as world:
        await world.until(foo, lambda it: it.status.conditions)
        await world.until(memcached, lambda it: it.status.ready_replicas == 1)
        await asyncio.sleep(30)
        yield world


async def feed_of(console: Console, path: str) -> Feed:
    """What a browser at this path sees."""
    page, _, _ = path.strip("/").partition("/")
    page = page.partition("?")[0]
    views = {
        "": ("overview.html", "main", console._overview),
        "search": ("search.html", "found", console._search),
        "objects": ("object.html", "main", console._object),
    }
    template, part, subject_of = views[page]
    render = partial(_part_of, await console._compiled(template), part)
    return console._feeds.of(await subject_of(request_of(path)), render)


def request_of(path: str) -> web.Request:
    names = dict(zip(("resource", "namespace", "name"), path.strip("/").split("/")[1:], strict=False))
    return make_mocked_request("GET", path, match_info=names)


class Browser:
    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.number, self.text = 0, ""

    async def sees(self, word: str, *, gone: bool = False) -> None:
        async with asyncio.timeout(20):
            while not self.text or (word in self.text) is gone:
                self.number, self.text = await self.feed.after(self.number)


@asynccontextmanager
async def browser_at(console: Console, path: str) -> AsyncIterator[Browser]:
    feed = await feed_of(console, path)
    work = asyncio.create_task(feed.work())
    try:
        yield Browser(feed)
    finally:
        work.cancel()
        await asyncio.wait([work])
        assert work.cancelled() or not work.exception()


FOO, WEB = (
    "/objects/foos.tutorial.my.domain/default/lonely",
    "/objects/memcacheds.cache.example.com/default/web",
)


async def another_friend(world: World) -> None:
    await world.update(await world.get(Foo, "lonely"), lambda it: setattr(it.spec, "name", "jill"))


async def another_foo(world: World) -> None:
    await world.create(Foo(metadata=ObjectMeta(name="other"), spec=FooSpec(name="jack")))


async def a_pod_hangs(world: World) -> None:
    """No cache of ours has it: nobody asks for a reconcile."""
    [pod] = world.cluster.client.list("pods", "default")
    name = pod["metadata"]["name"]
    patch = {"metadata": {"finalizers": ["example.com/hangs"]}}
    await world.cluster.client.patch("pods", "default", name, patch)
    await world.cluster.client.delete("pods", "default", name)


async def an_event(world: World) -> None:
    """That somebody else has recorded."""
    web = await world.get(Memcached, "web")
    about = {"kind": "Memcached", "namespace": "default", "name": "web", "uid": web.metadata.uid}
    said = {"reason": "Unlucky", "message": "a meteorite", "type": "Warning", "count": 1}
    metadata = {"name": "e", "namespace": "default"}
    event = {"metadata": metadata, "involvedObject": about, "lastTimestamp": "2024-01-01T00:00:00Z", **said}
    await world.cluster.client.create("events", "default", event)


async def a_pause(world: World) -> None:
    [controller] = [each for each in world.manager.controllers if each.name == "foo"]
    assert controller.queue is not None
    controller.queue.halted = True


async def the_friend_comes(world: World) -> None:
    pod = {"metadata": {"name": "jack"}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    await world.cluster.client.create("pods", "default", pod)


@pytest.mark.parametrize(
    ("path", "cause", "word"),
    [
        ("/", another_foo, "2</a>"),
        ("/", a_pause, "Resume foo"),
        (FOO, another_friend, "no pod named jill"),
        (FOO, the_friend_comes, "All is well"),
        (FOO, a_pause, "does not look at it until it is resumed"),
        (WEB, a_pod_hangs, "waits for the finalizer example.com/hangs"),
        (WEB, an_event, "a meteorite"),
        ("/search", another_foo, "default/other"),
        ("/search?state=not-ready", another_foo, "2 objects"),
        ("/search?state=not-ready", the_friend_comes, "Nothing found"),
    ],
)
async def test_a_change_is_on_the_page_within_half_a_second(
    path: str, cause: Callable[[World], Awaitable[None]], word: str
):
    loop, rng = asyncio.get_running_loop(), random.Random(5)
    async with shop() as world, browser_at(console_of(world), path) as browser:
        await browser.sees(word, gone=True)
        await asyncio.sleep(10 + rng.random())
        await cause(world)
        began = loop.time()
        await browser.sees(word)
        assert loop.time() - began <= WITHIN


async def test_feed_is_shared_by_its_browsers_and_survives_when_the_first_leaves():
    async with shop() as world:
        console = console_of(world)
        async with browser_at(console, FOO) as other:
            async with browser_at(console, FOO) as first:
                assert other.feed is first.feed
                await first.sees("no pod named jack")
            await other.sees("no pod named jack")
            await another_friend(world)
            await other.sees("no pod named jill")
        assert not world.manager.history.listeners
        assert not console._watches._heard
        assert not [each for each in asyncio.all_tasks() if each.get_name().startswith("console-watch")]


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Found]]:
    """What the looks at objects have found, while somebody has it."""
    found: list[weakref.ref[Found]] = []
    look = Looker.look

    async def noted(looker: Looker, gvk: GroupVersionKind, key: ObjectKey) -> Found:
        answer = await look(looker, gvk, key)
        found.append(weakref.ref(answer))
        return answer

    monkeypatch.setattr(Looker, "look", noted)
    return found


async def test_console_releases_the_result_of_a_look_within_a_second(looked_up: list[weakref.ref[Found]]):
    async with shop() as world:
        console = console_of(world)
        for path in FOO, WEB:
            await console._look_at_object(request_of(path))
        await asyncio.sleep(1)
        gc.collect()
        assert [each() for each in looked_up] == [None, None]


async def test_console_shares_one_look_between_all_tokens_of_a_user(looked_up: list[weakref.ref[Found]]):
    async with shop() as world:
        console = console_of(world)

        async def by_token(number: int) -> Feed:
            credential = ("authentication.kubernetes.io/credential-id", (f"JTI={number}",))
            guard._asking.set(User("ann", extra=(credential,)))
            await console._look_at_object(request_of(WEB))
            return await feed_of(console, WEB)

        feeds = await asyncio.gather(*map(by_token, range(3)))
        assert len(looked_up) == 1
        assert len(set(feeds)) == 1


async def test_a_list_that_nobody_may_watch_is_looked_at_again_now_and_then(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("manager.console.following.MOST", 0)
    loop = asyncio.get_running_loop()
    async with shop() as world, browser_at(console_of(world), WEB) as browser:
        await browser.sees("All is well")
        began = loop.time()
        await an_event(world)
        await browser.sees("a meteorite")
        assert WITHIN < loop.time() - began <= 4.0


CORE = "/api/v1/namespaces/default"


def listed(kind: str, path: str, *query: tuple[str, str], group: str = "") -> Listed:
    return Listed(GroupVersionKind(group, "v1", kind), "default", path, query)


EVENTS = listed("Event", f"{CORE}/events", ("fieldSelector", "involvedObject.uid=u"))
CLAIMS = listed("PersistentVolumeClaim", f"{CORE}/persistentvolumeclaims")
OWNED = listed("Deployment", "/apis/apps/v1/namespaces/default/deployments", group="apps")
PODS = listed("Pod", f"{CORE}/pods", ("labelSelector", "app=web"))


def found_for(uid: str, *lists: Listed) -> Found:
    root = Node("Memcached", "default", "web", uid, Verdict(True))
    return Found({}, root, [], [], dict.fromkeys(lists, "1"))


@asynccontextmanager
async def watches_by(wire: ScriptedWire) -> AsyncIterator[Watches]:
    transport = Transport(wire, metrics=Metrics(), rng=random.Random(1), user_agent="test")
    async with shop() as world:
        yield Watches(transport, world.manager.cache)
        assert not wire.in_progress


async def test_watches_share_one_watch_of_a_list_until_its_last_page_is_closed():
    wire, stream = ScriptedWire(), Stream()
    wire.on("GET", CLAIMS.path, stream)
    async with watches_by(wire) as watches, AsyncExitStack() as left:
        pages = {uid: Following(watches) for uid in ("a", "b", "c")}
        for uid, page in pages.items():
            await left.enter_async_context(page.kept())
            page.follow(found_for(uid, CLAIMS), asyncio.get_running_loop().time())
            await asyncio.sleep(1)
        stream.event("ADDED", {"metadata": {"uid": "claim", "ownerReferences": [{"uid": "b"}]}})
        await asyncio.sleep(1)
        assert [page.heard for page in pages.values()] == [0, 1, 0]
        assert len(wire.sent("GET", CLAIMS.path)) == 1
        pages["a"].follow(found_for("a"), 0.0)
        pages["b"].follow(found_for("b"), 0.0)
        await asyncio.sleep(1)
        assert not stream.closed
    assert stream.closed


async def test_watches_are_divided_between_users_when_the_limit_is_reached(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("manager.console.following.MOST", 4)
    wire, now = ScriptedWire(), asyncio.get_running_loop().time()
    several = [Listed(CLAIMS.gvk, f"n{each}", f"/n{each}", EVENTS.query) for each in range(10)]
    streams = {listed: Stream() for listed in several}
    for listed, stream in streams.items():
        wire.on("GET", listed.path, stream)

    def watched() -> list[int]:
        return [
            number for number, each in enumerate(streams.values()) if each.opened.is_set() and not each.closed
        ]

    async with watches_by(wire) as watches:
        greedy, late = Following(watches, "eve"), Following(watches, "ann")
        async with greedy.kept(), late.kept():
            greedy.follow(found_for("a", *several[:6]), now)
            await asyncio.sleep(1)
            assert watched() == [0, 1, 2, 3]
            late.follow(found_for("b", *several[6:]), now)
            await asyncio.sleep(1)
            assert watched() == [0, 1, 6, 7]
            greedy.follow(found_for("a", *several[:6]), now)
            await asyncio.sleep(1)
            assert watched() == [0, 1, 6, 7]


async def test_console_look_closes_its_changes_generator_when_it_is_cancelled():
    async with shop() as world:
        console, waiting, ended = console_of(world), asyncio.Event(), False

        async def changes(_: str) -> AsyncGenerator[Changed, None]:
            nonlocal ended
            try:
                while True:
                    yield Changed(sources(world.manager).__next__()[1].spec, ObjectKey("ns", "a"), 0.0, [])
            finally:
                ended = True

        async def may_get(_: object) -> bool:
            waiting.set()
            await asyncio.Event().wait()
            return True

        console.changes.of = changes  # type: ignore[method-assign]
        console._may_get = may_get  # type: ignore[method-assign]
        look = asyncio.create_task(console._look_at_object(request_of(FOO)))
        await waiting.wait()
        look.cancel()
        await asyncio.wait([look])
        assert ended


async def test_following_looks_again_when_an_event_came_during_its_look():
    wire, stream, loop = ScriptedWire(), Stream(), asyncio.get_running_loop()
    wire.on("GET", CLAIMS.path, stream)
    async with watches_by(wire) as watches:
        first, early, late = (Following(watches) for _ in range(3))
        async with first.kept(), early.kept(), late.kept():
            first.follow(found_for("a", CLAIMS), loop.time())
            await asyncio.sleep(1)
            began = loop.time()
            stream.event("ADDED", {"metadata": {"uid": "claim", "ownerReferences": [{"uid": "b"}]}})
            await asyncio.sleep(1)
            early.follow(found_for("b", CLAIMS), began)
            late.follow(found_for("b", CLAIMS), loop.time())
            early.follow(found_for("b", CLAIMS), loop.time())
            assert (first.heard, early.heard, late.heard) == (0, 1, 0)


async def test_following_hears_changes_of_cached_kinds_without_a_watch():
    wire = ScriptedWire()
    async with shop() as world:
        transport = Transport(wire, metrics=Metrics(), rng=random.Random(1), user_agent="test")
        page = Following(Watches(transport, world.manager.cache))
        web = await world.get(Memcached, "web")
        [deployment] = world.cluster.client.list("deployments.apps", "default")
        async with page.kept():
            page.follow(
                found_for(deployment["metadata"]["uid"], PODS, OWNED), asyncio.get_running_loop().time()
            )
            await world.update(web, lambda it: setattr(it.spec, "size", 2))
            await asyncio.sleep(5)
            assert page.heard
        assert not wire.requests


async def test_watches_read_one_large_object_per_turn_of_the_loop():
    wire = ScriptedWire()
    several = [Listed(CLAIMS.gvk, f"n{each}", f"/n{each}", EVENTS.query) for each in range(8)]
    streams = [Stream() for _ in several]
    for each, stream in zip(several, streams, strict=True):
        wire.on("GET", each.path, stream)
    async with watches_by(wire) as watches:
        page = Following(watches)
        async with page.kept():
            page.follow(found_for("a", *several), 0.0)
            await asyncio.sleep(1)
            most = before = page.heard = 0
            for stream in streams:
                stream.event("MODIFIED", {"metadata": {"name": "x" * 100_000}})
            while page.heard < len(several):
                await asyncio.sleep(0)
                most, before = max(most, page.heard - before), page.heard
            assert most == 1


async def test_watch_survives_deeply_nested_objects_and_rewrites_none(monkeypatch: pytest.MonkeyPatch):
    made_shallow = list[int]()
    monkeypatch.setattr("manager.kube.decoding._shallow", lambda raw, _: made_shallow.append(1) or bytes(raw))
    wire, stream = ScriptedWire(), Stream()
    wire.on("GET", CLAIMS.path, stream)
    async with watches_by(wire) as watches:
        page = Following(watches)
        async with page.kept():
            page.follow(found_for("a", CLAIMS), 0.0)
            await asyncio.sleep(1)
            page.heard = 0
            for depth in (100, 1_100, 100_000):
                nested = b'{"f:a":' * depth + b"{}" + b"}" * depth
                metadata = b'{"managedFields":[{"fieldsV1":%b}]}' % nested
                stream.feed(b'{"type":"MODIFIED","object":{"metadata":%b}}\n' % metadata)
            await asyncio.sleep(1)
            assert page.heard == 2
            stream.event("ADDED", {"metadata": {"uid": "a"}})
            await asyncio.sleep(1)
            assert page.heard == 3
    assert not made_shallow


async def test_pages_take_a_share_of_the_loops_time_and_no_more(monkeypatch: pytest.MonkeyPatch):
    spent = 0.0
    monkeypatch.setattr("manager.console.live._SHARE", 0.2)
    monkeypatch.setattr("time.thread_time", lambda: spent)
    loop, allowance = asyncio.get_running_loop(), Allowance()
    began = loop.time()
    for _ in range(100):
        await allowance.ready()
        with allowance.spending():
            spent += 0.1
    assert 0.19 <= spent / (loop.time() - began) <= 0.21


async def test_allowance_charges_each_step_of_a_look_once(monkeypatch: pytest.MonkeyPatch):
    spent = 0.0
    monkeypatch.setattr("manager.console.live._SHARE", 0.2)
    monkeypatch.setattr("time.thread_time", lambda: spent)
    loop, allowance = asyncio.get_running_loop(), Allowance()

    async def look() -> None:
        nonlocal spent
        for _ in range(3):
            spent += 1
            with allowance.spending():
                spent += 1
            await asyncio.sleep(0.1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.sleep(1)

    await allowance.paid(look())
    await allowance.ready()
    assert loop.time() == pytest.approx(6 / 0.2, abs=1)


async def test_a_page_of_an_object_costs_what_was_looked_up_for_it(monkeypatch: pytest.MonkeyPatch):
    spent, loop = 0.0, asyncio.get_running_loop()
    monkeypatch.setattr("manager.console.live._SHARE", 0.2)
    monkeypatch.setattr("time.thread_time", lambda: spent)
    look = Looker.look

    async def dear(looker: Looker, gvk: GroupVersionKind, key: ObjectKey) -> Found:
        nonlocal spent
        spent += 1
        return await look(looker, gvk, key)

    monkeypatch.setattr(Looker, "look", dear)
    async with shop() as world:
        console = console_of(world)
        began = loop.time()
        for path in FOO, WEB, FOO, WEB:
            await console._look_at_object(request_of(path))
        async with browser_at(console, FOO) as browser:
            await browser.sees("no pod named jack")
        assert loop.time() - began == pytest.approx(4 / 0.2, abs=1)


STATES = ["", "not-ready", "failing", "waiting", "running", "slow", "stuck"]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("most", [3, 200])
async def test_search_kept_current_finds_the_same_rows_as_a_new_search(
    monkeypatch: pytest.MonkeyPatch, state: str, most: int
):
    monkeypatch.setattr("manager.console.search.MOST_FOUND", most)
    rng, wanted = random.Random(3), Wanted(name="a", state=state)
    async with operated(FooOperator) as world:
        everything = kinds(world.manager)
        search = Search(world.manager, wanted)
        with search.kept():
            there: list[Foo] = []
            for _ in range(40):
                if there and rng.random() < 0.3:
                    await world.delete(there.pop(rng.randrange(len(there))))
                elif there and rng.random() < 0.4:
                    friend = rng.choice(["jack", "not a name"])
                    await world.update(rng.choice(there), lambda it, to=friend: setattr(it.spec, "name", to))
                else:
                    name = "".join(rng.choices("abc", k=6))
                    there.append(
                        await world.create(Foo(metadata=ObjectMeta(name=name), spec=FooSpec(name="x")))
                    )
                await asyncio.sleep(rng.choice([0, 0.001, 1]))
                rows, more = await search.look(everything)
                assert (rows, more) == await Search(world.manager, wanted).look(everything)
        assert not world.manager.history.listeners


async def test_a_search_for_what_waits_asks_for_no_object_that_rests(monkeypatch: pytest.MonkeyPatch):
    foos = [Foo(metadata=ObjectMeta(name=f"f{each}"), spec=FooSpec(name="jack")) for each in range(30)]
    async with operated(FooOperator, objects=foos) as world:
        for foo in foos:
            await world.until(foo, lambda it: it.status.conditions)
        await asyncio.sleep(30)
        [(controller, informer)] = sources(world.manager)
        everything, asked = kinds(world.manager), list[object]()
        waiting = controller.waiting
        for found in "", "nobody":
            search = Search(world.manager, Wanted(name=found, state="waiting"))
            with search.kept():
                await search.look(everything)
                monkeypatch.setattr(informer, "list", lambda **_: asked.append("all") or [])
                monkeypatch.setattr(controller, "waiting", lambda key: asked.append(key) or waiting(key))
                before = len(asked)
                await search.look(everything)
                assert len(asked) == before
                monkeypatch.undo()


async def test_a_search_for_what_waits_keeps_nobody_waiting():
    async with operated(FooOperator) as world:
        await another_foo(world)
        await asyncio.sleep(1)
        [(controller, _)] = sources(world.manager)
        assert controller.queue is not None
        search = Search(world.manager, Wanted(state="waiting"))
        with search.kept():
            await search.look(kinds(world.manager))
            for each in range(20_000):
                controller.queue.add(ObjectKey("default", f"f{each}"), after=3600)
            assert await turns_of_others(search.look(kinds(world.manager))) >= 15
