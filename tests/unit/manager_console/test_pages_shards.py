"""The console of a replica with shards: the owner of an object, and who may see it."""

from __future__ import annotations

import orjson
import pytest

from apis.tutorial.v1.foo import Foo
from controllers.main import OPERATORS
from devcluster.http_call import ApiResponse
from manager.election.coordinator import Leadership
from manager.kube.wire import WireRequest
from manager.server.access import Access
from manager.telemetry.metrics import Metrics
from manager.util.clock import now
from manager_console.diagnosis.collect import Collector
from manager_console.diagnosis.shard_holders import ShardHolders, ShardLeases
from manager_console.pages import Console
from manager_shards.owned import OwnedShards
from manager_tools.testing import LocalWire, World
from tests.support.reviews import RIGHTS, access_by, api_server, reviewed_rights
from tests.support.scripted_wire import Reply, Sent
from tests.support.served_pages import ServePages, Site
from tests.unit.connected import connected
from tests.unit.election.conftest import LeaseServer
from tests.unit.manager_console.test_pages import PAGE, PATH, get, post, world

__all__ = ["world"]

COUNT = 4
OTHER = "pod-b_0123456789"


class Part:
    """Console of a replica with some shards; another replica has the other shards."""

    def __init__(self, world: World, access: Access | None = None) -> None:
        self.world = world
        self.wire = LocalWire(world.cluster)
        self.owned = OwnedShards(COUNT, Metrics())
        transport = connected(self.wire).transport
        leases = ShardLeases(transport, namespace="default", name="test")
        holders = ShardHolders(leases, self.owned, {"foo": True})
        self.console = Console(world.manager, transport, OPERATORS, access, holders)

    def hold(self, *numbers: int) -> None:
        renewed = now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        for number in range(COUNT):
            if number in numbers:
                self.owned.begin(number, Leadership())
            spec = {"holderIdentity": "test" if number in numbers else OTHER, "renewTime": renewed}
            LeaseServer(self.world.cluster).put(
                f"test-{number}" if number else "test",
                {"leaseDurationSeconds": 15, **spec},
                labels={"test/lease": "shard"},
                annotations={} if number else {"test/shards": f"{COUNT}"},
            )

    async def number(self) -> int:
        foo = await self.world.get(Foo, "lonely")
        return self.owned.number_of(foo.metadata.uid or "")


@pytest.fixture
async def part(world: World) -> Part:
    return Part(world)


@pytest.fixture
async def site(part: Part, serve_pages: ServePages) -> Site:
    return await serve_pages(part.console.routes())


@pytest.mark.parametrize("here", [True, False], ids=["on the owner", "on another replica"])
async def test_object_page_names_the_owning_replica_and_offers_actions_only_on_that_replica(
    world: World, part: Part, site: Site, here: bool
):
    number = await part.number()
    part.hold(*({number} if here else {*range(COUNT)} - {number}))
    _, text = await get(site, PATH)
    assert f"shard {number} of 4, which {'test' if here else OTHER} holds" in text
    assert f"{'this' if here else 'another'} replica</span>" in text
    assert ("may be outdated or missing" in text) is not here
    assert ("Reconcile now" in text) is here
    assert ("</strong>: when a pod named jack is created" in text) is here
    [owner] = orjson.loads((await get(site))[1])["owners"]
    assert (owner["controller"], owner["here"]) == ("foo", here)
    if here:
        assert await post(site, f"{PATH}/reconcile") == (303, PATH)
        return
    for action in "reconcile", "pause":
        status, text = await post(site, f"{PATH}/{action}")
        assert status == 409
        assert "ask the replica that does" in text
    foo = await world.get(Foo, "lonely")
    [controller] = world.manager.controllers
    assert controller.queue is not None
    assert not controller.queue.is_paused(foo.key)
    assert len(controller.runs.of(foo.key)) == 1


async def test_console_api_finds_the_owning_replica_of_an_uncached_object_by_the_uid_query_parameter(
    part: Part, site: Site
):
    part.hold()
    unknown = PAGE.replace("lonely", "elsewhere")
    assert orjson.loads((await get(site, unknown))[1])["owners"] == []
    [owner] = orjson.loads((await get(site, f"{unknown}?uid=a-uid"))[1])["owners"]
    assert owner["shard"] == part.owned.number_of("a-uid")
    assert (owner["holder"], owner["here"]) == (OTHER, False)
    assert (await post(site, f"{PATH.replace('lonely', 'elsewhere')}/reconcile"))[0] == 409


async def test_console_reads_an_uncached_object_with_list_requests_only(
    part: Part, site: Site, monkeypatch: pytest.MonkeyPatch
):
    asked_for, answer = list[str](), part.wire.answer

    async def noted(request: WireRequest) -> ApiResponse:
        asked_for.append(request.path.partition("?")[0])
        return await answer(request)

    monkeypatch.setattr(part.wire, "answer", noted)
    monkeypatch.setattr(Collector, "_cached", lambda *_: None)
    part.hold()
    status, text = await get(site, PATH)
    assert status == 200
    assert "There is no pod named jack" in text
    for nobody in ("nobody", "lonely%2Cmetadata.namespace%3Ddefault"):
        status, text = await get(site, PATH.replace("lonely", nobody))
        assert status == 404
        assert "There is no such object." in text
    foos = "/apis/tutorial.my.domain/v1/namespaces/default/foos"
    assert foos in asked_for
    assert not [path for path in asked_for if path.startswith(f"{foos}/")]


async def test_overview_page_lists_all_replicas_with_their_shards(part: Part, site: Site):
    part.hold(0, 1, 3)
    _, text = await get(site, "/")
    assert "Replicas and their shards" in text
    shown = " ".join(text[text.index("Replicas and their shards") :].split())
    assert 'test <span class="badge good">this one</span></td>' in shown
    assert '<td data-label="Which">0-1, 3</td>' in shown
    assert (
        f'{OTHER}</td> <td data-label="Shards" class="number">1</td> <td data-label="Which">2</td>' in shown
    )
    assert "lonely" not in text


@pytest.mark.parametrize("may", [True, False])
async def test_console_shows_shard_holders_only_to_users_with_lease_rights(
    world: World, serve_pages: ServePages, may: bool
):
    wire = api_server()

    def review(sent: Sent) -> Reply:
        spec = sent.json()["spec"]
        leases = spec.get("resourceAttributes", {}).get("resource") == "leases"
        return Reply.json({"status": {"allowed": spec["user"] == "ann" and (may or not leases)}})

    wire.on("POST", RIGHTS, review)
    part = Part(world, access_by(wire))
    part.hold()
    number = await part.number()
    site = await serve_pages(part.console.routes())
    for path in (PATH, "/", PAGE, f"{PATH}?part=1", "/?part=1"):
        status, text = await get(site, path, Authorization="Bearer ann")
        assert status == 200
        assert (OTHER in text) is may, path
        if "objects" in path and "api" not in path:
            assert f"shard {number} of 4" in text
    assert ("you may not get its lease" in (await get(site, PATH, Authorization="Bearer ann"))[1]) is not may
    reviewed = [each["resourceAttributes"] for each in reviewed_rights(wire) if "resourceAttributes" in each]
    of_leases = [each for each in reviewed if each["resource"] == "leases"]
    assert {each.get("name", "") for each in of_leases} == {"", f"test-{number}" if number else "test"}
    assert {(each["verb"], each["group"], each["namespace"]) for each in of_leases} == {
        ("get", "coordination.k8s.io", "default")
    }
