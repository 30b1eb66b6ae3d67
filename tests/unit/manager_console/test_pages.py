"""The console's pages, and which users may see them."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import orjson
import pytest

from apis.cache.v1.memcached import Memcached, MemcachedSpec
from apis.tutorial.v1.foo import Foo, FooSpec
from controllers.cache.memcached import MemcachedOperator
from controllers.main import OPERATORS
from controllers.tutorial.foo import FooOperator
from manager.api import ObjectKey, ObjectMeta
from manager.election.coordinator import Coordinator, Leadership
from manager.kube.errors import NotFound
from manager.server.access import Access
from manager.tls.served import SelfSigned, ServedCertificate
from manager.util.clock import now
from manager_console.diagnosis.collect import Collected, Collector
from manager_console.diagnosis.readiness import Verdict
from manager_console.overview import Figures, sources
from manager_console.pages import Console
from manager_tools.testing import LocalWire, World, operated
from tests.support import ROOT
from tests.support.eventually import eventually_async
from tests.support.reviews import RIGHTS, access_by, api_server, reviewed_rights
from tests.support.running_pods import create_running_pod
from tests.support.scripted_wire import Reply, ScriptedWire, Sent
from tests.support.served_pages import ServePages, Site, occupied_threads
from tests.unit.cache.objects import running
from tests.unit.conftest import LogLines
from tests.unit.connected import connected

PAGE = "/api/objects/foos.tutorial.my.domain/default/lonely"


def console_of(world: World, access: Access | None = None) -> Console:
    return Console(world.manager, connected(LocalWire(world.cluster)).transport, OPERATORS, access)


async def get(site: Site, path: str = PAGE, **headers: str) -> tuple[int, str]:
    answer = await site.get(path, headers=headers)
    return answer.status, answer.text


@asynccontextmanager
async def lonely() -> AsyncIterator[World]:
    """Run a manager with a Foo that names a nonexistent pod as its friend."""
    foo = Foo(metadata=ObjectMeta(name="lonely", namespace="default"), spec=FooSpec(name="jack"))
    async with operated(FooOperator, objects=[foo]) as world:
        await world.until(foo, lambda it: it.status.conditions)
        yield world


WEB = "/objects/memcacheds.cache.example.com/default/web"


@asynccontextmanager
async def serving(serve_pages: ServePages, access: Access | None = None) -> AsyncIterator[tuple[World, Site]]:
    """Serve the console of a manager with a Memcached that grows from one pod to two."""
    memcached = Memcached(metadata=ObjectMeta(name="web", namespace="default"), spec=MemcachedSpec(size=1))
    async with operated(MemcachedOperator, objects=[memcached]) as world:
        await world.until(memcached, lambda it: it.status.ready_replicas == 1)
        console = console_of(world, access)
        async with running(console.changes):
            await world.update(memcached, lambda it: setattr(it.spec, "size", 2))
            await world.until(memcached, lambda it: it.status.ready_replicas == 2)
            yield world, await serve_pages(console.routes())


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with lonely() as world:
        yield world


@pytest.fixture
async def site(world: World, serve_pages: ServePages) -> AsyncIterator[Site]:
    """Serve the console to local users."""
    console = console_of(world)
    async with running(console.changes):
        yield await serve_pages(console.routes())


@pytest.fixture
async def users() -> ScriptedWire:
    """Return the wire to the API server of `guarded_site`."""
    return api_server()


@pytest.fixture
async def guarded_site(world: World, serve_pages: ServePages, users: ScriptedWire) -> Site:
    """Serve the console and its debug pages to users whose rights an API server reviews."""
    return await serve_pages(console_of(world, access_by(users)).routes(has_debug_pages=True))


async def test_console_api_lists_the_recent_reconciles_of_an_object_to_local_clients(site: Site):
    status, text = await get(site)
    assert status == 200
    assert orjson.loads(text)["owners"] == []
    [controller] = orjson.loads(text)["controllers"]
    assert (controller["controller"], controller["state"]) == ("foo", "running")
    run = controller["runs"][0]
    assert (run["outcome"], run["writes"]) == ("success", 1)
    [trigger] = run["triggers"]
    assert (trigger["why"], trigger["source"], trigger["kind"]) == ("found", "for", "Foo")
    assert abs(run["started"] - now().timestamp()) < 600
    for absent in "/api/objects/bars.example.com/lonely", "/debug/tasks", "/debug/profile":
        assert (await get(site, absent))[0] == 404


async def test_console_pages_are_served_when_reconcilers_occupy_all_threads(site: Site):
    _, text = await get(site, "/search")
    style = re.findall(r"/static/[^\"]*css[^\"]*", text)[0]
    with occupied_threads():
        async with asyncio.timeout(20):
            for path in ("/", "/search", style):
                assert (await get(site, path))[0] == 200


@pytest.mark.parametrize("host", ["evil.example.com", "evil.example.com:8082", "10.0.0.1:8082", "[::2]:1"])
async def test_console_refuses_a_request_with_the_host_header_of_another_machine(site: Site, host: str):
    status, text = await get(site, Host=host)
    assert (status, text) == (421, "not a name of this machine\n")
    for own in ("localhost", "127.0.0.1:1", "[::1]:8082"):
        assert (await get(site, Host=own))[0] == 200


PATH = "/objects/foos.tutorial.my.domain/default/lonely"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{987654*7}}\n\u202e"


async def test_object_page_shows_the_problem_and_what_triggers_the_next_reconcile(site: Site):
    status, text = await get(site, PATH)
    assert status == 200
    assert "What is wrong" in text
    assert "FriendMissing" in text
    assert "There is no pod named jack" in text
    assert "</strong>: when a pod named jack is created" in text
    assert "Foo found" in text
    [live] = re.findall(r'data-live="([^"]+)"', text)
    assert live == f"{PATH}?part=1"
    _, part = await get(site, live)
    assert "<html" not in part
    assert "There is no pod named jack" in part
    for nobody in ("default/nobody", "lonely", "a%2Fb/lonely", "default/%3Cscript%3E"):
        status, text = await get(site, f"/objects/foos.tutorial.my.domain/{nobody}")
        assert status == 404
        assert "There is no such object." in text


async def test_console_pages_escape_html_from_objects_events_and_queries(
    serve_pages: ServePages, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("manager_console.overview.judge", lambda _: Verdict(False, HOSTILE, HOSTILE))
    foo = Foo(metadata=ObjectMeta(name="odd", namespace="default"), spec=FooSpec(name=HOSTILE[:60]))
    async with operated(FooOperator, objects=[foo]) as world:
        await world.until(foo, lambda it: it.status.conditions)
        live = await world.get(Foo, "odd")
        world.manager.events.event(live, "Warning", "Odd", HOSTILE)
        await world.manager.events.flush(1.0)
        site = await serve_pages(console_of(world).routes())
        for path in (
            "/objects/foos.tutorial.my.domain/default/odd",
            "/search?" + urlencode({"name": HOSTILE, "longer": HOSTILE, "namespace": HOSTILE}),
            "/search?state=not-ready",
        ):
            status, text = await get(site, path)
            assert status == 200
            assert "alert(1)" in text
            for dangerous in ("<script>a", "<img", "\u202e", "6913578"):
                assert dangerous not in text, path


async def test_object_page_shows_the_last_change_of_the_object_and_its_children(serve_pages: ServePages):
    async with serving(serve_pages) as (_, site):
        _, text = await get(site, WEB)
        assert "Deployment web" in text
        assert re.search(r"<code>status\.\w+</code> <del>1</del> <ins>2</ins>", text)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {"lonely", "fine"}),
        ("name=LON", {"lonely"}),
        ("namespace=elsewhere", set()),
        ("kind=bars.example.com", set()),
        ("state=not-ready", {"lonely"}),
        ("state=failing", set()),
        ("state=slow&longer=1h", set()),
        ("state=stuck&longer=0s", set()),
        ("state=nonsense", {"lonely", "fine"}),
    ],
)
async def test_search_finds_objects_by_kind_namespace_name_and_state(
    world: World, site: Site, query: str, found: set[str]
):
    await create_running_pod(world.cluster, "joe", node="")
    fine = await world.create(Foo(metadata=ObjectMeta(name="fine"), spec=FooSpec(name="joe")))
    await world.until(fine, lambda it: it.status.conditions and it.status.conditions[0].status == "True")
    status, text = await get(site, f"/search?{query}")
    assert status == 200
    assert f'data-live="/search?part=1{"&amp;" * bool(query)}{query.replace("&", "&amp;")}"' in text
    assert set(re.findall(r'href="/objects/foos.tutorial.my.domain/default/(\w+)"', text)) == found


async def test_overview_page_shows_counts_but_no_object_names(world: World, site: Site):
    served = world.manager.certificates["metrics"] = ServedCertificate(SelfSigned())
    async with served.refreshed():
        status, text = await get(site, "/")
    assert status == 200
    assert "lonely" not in text
    assert re.search(r"Certificate of metrics</dt><dd>[\dhms]+ old <small>and valid for 36[45] days<", text)
    assert "at work, without an election" in text
    for word in ("Controllers", "foos.tutorial.my.domain", "pods", "running", "Lag of the event loop"):
        assert word in text


async def test_overview_page_of_a_standby_names_the_leader(site: Site, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Coordinator, "leader", "pod-a_1")
    assert ">leads</span>" in (await get(site, "/"))[1]
    monkeypatch.setattr(Leadership, "deadline", 0.0)
    _, text = await get(site, "/?part=1")
    assert ">in standby</span>" in text
    assert "<dt>Leader</dt><dd>pod-a_1</dd>" in text


async def test_readiness_count_runs_in_time_slices_and_stops_if_no_page_asks(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("manager_console.overview._AT_ONCE", 0.0)
    [(controller, informer)] = sources(world.manager)
    figures, handlers = Figures(controller), len(informer._handlers)
    assert figures.not_ready(informer) == (0, False)
    monkeypatch.setattr("manager_console.overview._AT_ONCE", 10.0)
    monkeypatch.setattr("manager_console.overview._KEPT", 0.0)
    assert figures.not_ready(informer) == (1, True)
    assert len(informer._handlers) == handlers + 1

    async def is_forgotten() -> bool:
        return len(informer._handlers) == handlers and not figures._bad

    await eventually_async(is_forgotten)
    monkeypatch.setattr("manager_console.overview._KEPT", 10.0)
    assert figures.not_ready(informer) == (1, True)
    await create_running_pod(world.cluster, "jack", node="")
    await world.until(await world.get(Foo, "lonely"), lambda it: it.status.conditions[0].status == "True")
    assert figures.not_ready(informer) == (0, True)


async def test_console_pages_load_no_resources_and_run_no_scripts_of_other_origins(site: Site):
    for path in ("/", "/search", PATH):
        answer = await site.get(path)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy
        assert "unsafe" not in policy
        assert "Set-Cookie" not in answer.headers
        assert "shard" not in answer.text
        assert "Owning replica" not in answer.text
        assert not re.search(r"<script(?! src=\"/static/)|<style|\sstyle=|\son\w+=|https?://", answer.text)
    for file in set(re.findall(r'"(/static/[^"]+)"', answer.text)):
        assert (await site.get(file)).status == 200


@pytest.mark.parametrize("token", ["", "ann"], ids=["this machine", "a user"])
async def test_console_creates_at_most_four_pages_at_the_same_time(
    world: World, site: Site, guarded_site: Site, monkeypatch: pytest.MonkeyPatch, token: str
):
    looking = most = 0

    async def collect(*_: object) -> Collected:
        nonlocal looking, most
        looking += 1
        most = max(most, looking)
        for _ in range(100):
            await asyncio.sleep(0)
        looking -= 1
        raise NotFound(404, "NotFound", "there is none")

    monkeypatch.setattr(Collector, "collect", collect)
    for number in range(12):
        foo = Foo(metadata=ObjectMeta(name=f"lonely-{number}"), spec=FooSpec(name="jack"))
        await world.until(await world.create(foo), lambda it: it.status.conditions)
    bearer = {"Authorization": f"Bearer {token}"} if token else {}
    asked = guarded_site if token else site
    answers = await asyncio.gather(*(get(asked, f"{PATH}-{number}", **bearer) for number in range(12)))
    assert {status for status, _ in answers} == {404}
    assert most == 4


def test_bundled_third_party_files_have_the_documented_checksums():
    folder = ROOT / "manager_console/static"
    said = dict(re.findall(r"`([\w.-]+\.js)` \|.*`([0-9a-f]{64})`", (folder / "README.md").read_text()))
    assert len(said) == 1
    assert {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in said} == said


async def post(site: Site, path: str, **headers: str) -> tuple[int, str]:
    origin = {"Origin": f"http://{site.address}"}
    answer = await site.get(path, method="POST", headers=origin | headers, allow_redirects=False)
    return answer.status, answer.headers.get("Location", "") or answer.text


async def test_console_reconcile_button_reconciles_the_object_and_records_an_event(world: World, site: Site):
    assert await post(site, f"{PATH}/reconcile") == (303, PATH)
    [controller] = world.manager.controllers
    foo = await world.get(Foo, "lonely")
    await world.until(foo, lambda _: len(controller.runs.of(foo.key)) > 1)
    assert controller.runs.of(foo.key)[-1].why == "requested by somebody on this machine"
    assert (await world.events(foo))[-1] == "ReconcileRequested"


@pytest.mark.parametrize("path", [PATH, "/controllers/foos.tutorial.my.domain"])
async def test_console_resume_reconciles_a_change_made_during_the_pause(world: World, site: Site, path: str):
    assert (await post(site, f"{path}/pause"))[0] == 303
    foo = await world.get(Foo, "lonely")
    [controller] = world.manager.controllers
    await world.update(foo, lambda it: setattr(it.spec, "name", "jill"))
    await world.until(foo, lambda _: controller.waiting(foo.key))
    assert "does not reconcile the object until it is resumed" in (await get(site, PATH))[1]
    assert (await world.get(Foo, "lonely")).status.conditions[0].message.endswith("jack")
    assert (await post(site, f"{path}/resume"))[0] == 303
    await world.until(foo, lambda it: it.status.conditions[0].message.endswith("jill"))
    assert "does not reconcile the object" not in (await get(site, PATH))[1]
    if path == PATH:
        assert (await world.events(foo))[1:3] == ["Paused", "Resumed"]


async def test_console_pause_ends_when_its_object_is_deleted(world: World, site: Site):
    foo = await world.get(Foo, "lonely")
    for _ in range(2):  # a second request does not count again
        assert (await post(site, f"{PATH}/pause"))[0] == 303
    await world.delete(foo)
    again = await world.create(Foo(metadata=ObjectMeta(name="lonely"), spec=FooSpec(name="joe")))
    await world.until(again, lambda it: it.status.conditions)


@pytest.mark.parametrize("action", ["reconcile", "pause", "resume"])
async def test_console_actions_refuse_other_origins_hosts_and_methods(world: World, site: Site, action: str):
    for origin in ("https://evil.example.com", "null", "", f"http://localhost:{site.address.port}"):
        assert (await post(site, f"{PATH}/{action}", Origin=origin))[0] == 403
    evil = {"Host": "evil.example.com", "Origin": "http://evil.example.com"}
    assert (await post(site, f"{PATH}/{action}", **evil))[0] == 421
    assert (await get(site, f"{PATH}/{action}"))[0] in (404, 405)
    assert (await post(site, f"{PATH}/delete"))[0] == 404
    assert (await post(site, f"/objects/bars.example.com/default/lonely/{action}"))[0] == 404
    missing = await post(site, f"{PATH.replace('lonely', 'nobody')}/{action}")
    assert missing == (404, "there is no such object\n")
    [controller] = world.manager.controllers
    assert len(controller.runs) == 1
    for name in "lonely", "nobody":
        assert not controller.queue.is_paused(ObjectKey("default", name))


GET_OVERVIEW = {"path": "/console", "verb": "get"}
FOOS = {"group": "tutorial.my.domain", "resource": "foos"}
GET_FOO = {"verb": "get", **FOOS, "namespace": "default", "name": "lonely"}


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("/", GET_OVERVIEW),
        ("/?part=1", GET_OVERVIEW),
        ("/search", GET_OVERVIEW),
        ("/debug/tasks", {"path": "/debug/tasks", "verb": "get"}),
        (PAGE, GET_FOO),
        (PATH, GET_FOO),
        (f"{PATH}?part=1", GET_FOO),
        (PATH.replace("/objects/", "/yaml/"), GET_FOO),
        (f"{PATH}/pause", {**GET_FOO, "verb": "update"}),
        (
            "/controllers/foos.tutorial.my.domain/pause",
            {"verb": "update", **FOOS, "namespace": "", "name": ""},
        ),
    ],
)
async def test_console_in_a_cluster_answers_only_users_with_permission(
    guarded_site: Site, users: ScriptedWire, path: str, right: dict[str, str]
):
    ask = post if right["verb"] == "update" else get
    for headers, expected in (
        ({}, 401),
        ({"Authorization": "Bearer eve"}, 401),
        ({"Authorization": "Bearer bob"}, 403),
    ):
        status, text = await ask(guarded_site, path, **headers)
        assert (status, "lonely" in text) == (expected, False)
    [review] = reviewed_rights(users)
    assert right in (review.get("nonResourceAttributes"), review.get("resourceAttributes"))
    assert (await ask(guarded_site, path, Authorization="Bearer ann"))[0] == (200 if ask is get else 303)


async def test_search_page_answers_500_and_logs_a_warning_when_a_review_of_a_right_fails(
    log_lines: LogLines, guarded_site: Site, users: ScriptedWire
):
    def overview_alone(sent: Sent) -> Reply:
        may = Reply.json({"status": {"allowed": True}})
        return may if "nonResourceAttributes" in sent.json()["spec"] else Reply.status(403, "Forbidden", "no")

    users.on("POST", RIGHTS, overview_alone)
    answer = await get(guarded_site, "/search", Authorization="Bearer ann")
    assert answer == (500, "Authorization for user ann failed\n")
    told = {(line["log_level"], line["event"]) for line in log_lines if line["log_level"] != "info"}
    assert ("warning", "access reviews for this page fail") in told
    assert "error" not in {level for level, _ in told}


async def test_console_action_records_an_event_with_the_name_of_the_user(world: World, guarded_site: Site):
    assert (await post(guarded_site, f"{PATH}/pause", Authorization="Bearer ann"))[0] == 303
    assert "Paused" in await world.events(await world.get(Foo, "lonely"))
    said = {each["message"] for each in world.cluster.client.list("events", "default")}
    assert "ann paused it in the console of foo" in said


async def test_console_limits_the_log_lines_of_actions_per_user(
    log_lines: LogLines, guarded_site: Site, users: ScriptedWire
):
    users.on("POST", RIGHTS, Reply.json({"status": {"allowed": True}}))
    for _ in range(100):
        assert (await post(guarded_site, f"{PATH}/reconcile", Authorization="Bearer ann"))[0] == 303
    assert (await post(guarded_site, f"{PATH}/reconcile", Authorization="Bearer bob"))[0] == 303
    told = Counter(line["by"] for line in log_lines if line["event"] == "action requested in the console")
    assert 10 <= told["ann"] < 50  # the limit is 10 per minute
    assert told["bob"] == 1


async def test_console_pages_of_owned_objects_show_yaml_and_offer_no_actions(serve_pages: ServePages):
    async with serving(serve_pages) as (world, site):
        _, text = await get(site, WEB)
        assert f'href="{WEB.replace("objects", "yaml")}"' in text
        assert f'href="{WEB}"' not in text
        deployment = "deployments.apps/default/web"
        assert f'href="/objects/{deployment}"' in text
        status, text = await get(site, f"/objects/{deployment}")
        assert status == 200
        assert "ReplicaSet" in text
        assert "Reconcile now" not in text
        assert (await post(site, f"/objects/{deployment}/reconcile"))[0] == 404
        status, text = await get(site, f"/yaml/{deployment}")
        assert (status, text.startswith("apiVersion: apps/v1\nkind: Deployment\n")) == (200, True)
        assert "image: memcached" in text
        secret = {"metadata": {"name": "password"}, "stringData": {"password": "HUNTER2"}}
        await world.cluster.client.create("secrets", "default", secret)
        for page in "objects", "yaml":
            for missing in (
                "secrets/default/password",
                "deployments.apps/default/nobody",
                "bars.example.com/a",
            ):
                assert (await get(site, f"/{page}/{missing}"))[0] == 404


async def test_object_page_shows_only_related_objects_that_the_user_may_get(
    serve_pages: ServePages, users: ScriptedWire
):
    def memcacheds_alone(sent: Sent) -> Reply:
        asked_for = sent.json()["spec"]["resourceAttributes"]["resource"]
        return Reply.json({"status": {"allowed": asked_for == "memcacheds"}})

    users.on("POST", RIGHTS, memcacheds_alone)
    async with serving(serve_pages, access_by(users)) as (_, site):
        status, text = await get(site, WEB, Authorization="Bearer ann")
        assert status == 200
        assert "Not known: Deployment: you may not get them" in text
        assert "Not known: Events: you may not get them" in text
        assert "ReplicaSet" not in text
        runs, _, rest = text.partition("Last changes")
        assert "Deployment web" in runs  # the runs are for users who may get the object
        assert "spec.size" in rest
        assert "Deployment" not in rest


async def test_debug_pages_show_the_stack_of_each_task_and_a_cpu_profile(guarded_site: Site):
    bearer = {"Authorization": "Bearer ann"}
    status, text = await get(guarded_site, "/debug/tasks", **bearer)
    assert status == 200
    worker = text.partition("\nfoo-worker-0\n")[2].partition("\n\n")[0]
    assert "Controller._reconcile_keys" in worker
    assert re.search(r"WorkQueue\.get \(.*queue\.py:\d+\)", worker)
    status, text = await get(guarded_site, "/debug/profile?seconds=0.1", **bearer)
    assert status == 200
    assert "function calls" in text
    for seconds in ("0", "31", "nan", "x"):
        assert (await get(guarded_site, f"/debug/profile?seconds={seconds}", **bearer))[0] == 400
