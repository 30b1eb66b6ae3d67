"""Simulated operators with timers, times to live, pods and HTTP services."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from manager import Context, Operator, Result, every, rbac
from manager.api import ObjectMeta
from manager.util import clock
from manager_kinds.core_v1 import ConfigMap, Pod, Secret
from manager_tools.simulation import assert_holds
from manager_tools.simulation.guards import NotRepeatable
from manager_tools.simulation.plan import plan_of
from manager_tools.simulation.scene import Sent
from manager_tools.simulation.seeds import run
from manager_tools.testing import VirtualClock, operated
from tests.unit.manager_tools.simulation.test_seeds import Greeting


def child_of(greeting: Greeting, suffix: str) -> ObjectMeta:
    return ObjectMeta(name=f"{greeting.metadata.name}-{suffix}", namespace=greeting.metadata.namespace)


class TimerOperator(Operator[Greeting]):
    """Operator with a periodic method that records the time each minute."""

    @every(60)
    async def beat(self, greeting: Greeting, _ctx: Context) -> None:
        greeting.status.last = clock.now()

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        ctx.condition("Ready", True, "AsWanted")


class ExpiryOperator(Operator[Greeting]):
    """Operator that deletes each object ten minutes after its creation."""

    rights = (rbac(groups="test.example.com", resources="greetings", verbs="delete"),)

    async def reconcile(self, greeting: Greeting, ctx: Context) -> Result | None:
        assert greeting.metadata.creation_timestamp is not None
        left = greeting.metadata.creation_timestamp + timedelta(minutes=10) - clock.now()
        if left <= timedelta():
            await ctx.delete(greeting)
            return None
        ctx.condition("Ready", True, "AsWanted")
        return Result(requeue_after=left.total_seconds())


class PodOperator(Operator[Greeting]):
    """Operator that creates a Pod, a Secret and a ConfigMap; the ConfigMap contains the Greeting's UID."""

    owns = (Pod, Secret, ConfigMap)

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        assert greeting.metadata.uid is not None
        if not await ctx.children(Pod):
            container = {"name": "a", "image": "busybox", "command": ["sleep", "infinity"]}
            await ctx.apply(Pod(metadata=child_of(greeting, "runner"), spec={"containers": [container]}))
        if not await ctx.children(Secret):
            password = base64.b64encode(ctx.token(24).encode()).decode()
            await ctx.apply(Secret(metadata=child_of(greeting, "password"), data={"password": password}))
        uid = greeting.metadata.uid
        await ctx.apply(ConfigMap(metadata=child_of(greeting, uid[:8]), data={"uid": uid}))
        for pod in await ctx.children(Pod):
            spec = pod.to_wire()["spec"]
            greeting.status.text = f"on {spec.get('nodeName', '')}"
        ctx.condition("Ready", True, "AsWanted")


@pytest.mark.parametrize("operator", [TimerOperator, ExpiryOperator, PodOperator])
def test_assert_holds_passes_for_correct_operators_with_timers_or_owned_pods(operator: type[Operator[Any]]):
    assert_holds(operator, seeds=range(2), minutes=3)


class AgeOperator(Operator[Greeting]):
    """Operator whose status shows the seconds since its first reconcile."""

    async def reconcile(self, greeting: Greeting, ctx: Context) -> Result:
        greeting.status.last = greeting.status.last or clock.now()
        greeting.status.seconds = int((clock.now() - greeting.status.last).total_seconds())
        ctx.condition("Ready", True, "AsWanted")
        return Result(requeue_after=7)


def test_assert_holds_ignores_differences_in_the_fields_that_its_caller_excludes():
    operators = (AgeOperator,)
    outcome = run(plan_of(1, operators, minutes=2), operators)
    assert {"status: seconds" in each.what for each in outcome.violations} == {True}
    assert_holds(AgeOperator, seeds=[1], minutes=2, may_differ=["seconds"])


async def tag(request: web.BaseRequest) -> web.Response:
    if request.method == "POST":
        return web.json_response({"echo": await request.text()})
    return web.json_response({"tag": "1.2", "path": request.path_qs, "host": request.host})


SERVICES = {"http://registry.default.svc:5000": tag, "https://api.example.com": tag}


class CallingOperator(Operator[Greeting]):
    """Operator that calls HTTP services, also in parallel tasks."""

    async def get(self, url: str, **options: Any) -> dict[str, Any]:
        async with aiohttp.ClientSession() as session, session.request(url=url, **options) as answer:
            found: dict[str, Any] = json.loads(await answer.text())
            return found

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        asked = self.get("http://registry.default.svc:5000/v2/?n=1", method="GET")
        first, second = await asyncio.gather(asked, self.get("https://api.example.com/a", method="GET"))
        sent = "x" * 200_000
        echoed = await self.get("http://registry.default.svc:5000/", method="POST", data=sent)
        reader, writer = await asyncio.open_connection("registry.default.svc", 5000)
        writer.write(b"GET /raw HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        raw = await reader.read()
        writer.close()
        assert echoed == {"echo": sent}
        assert b"/raw" in raw
        greeting.status.text = f"{first} {second}"
        ctx.condition("Ready", True, "AsWanted")


def test_fake_http_services_answer_requests_of_simulated_operators():
    assert_holds(CallingOperator, seeds=range(2), minutes=1, services=SERVICES)


async def test_fake_http_services_answer_requests_of_operators_on_a_virtual_clock():
    async with operated(CallingOperator, clock=VirtualClock(), services=SERVICES) as world:
        greeting = await world.create(Greeting(metadata=ObjectMeta(name="a")))
        greeting = await world.until(greeting, lambda it: it.status.text)
    assert "'path': '/v2/?n=1', 'host': 'registry.default.svc:5000'" in greeting.status.text


async def calls_what_is_not_faked() -> None:
    async with operated(CallingOperator, clock=VirtualClock()) as world:
        await world.create(Greeting(metadata=ObjectMeta(name="a")))
        await asyncio.sleep(5)


async def test_error_of_an_http_call_on_a_virtual_clock_names_the_service_that_has_no_fake():
    with pytest.raises(NotRepeatable, match=r"test_scene.py:\d+: registry.default.svc is looked up, and"):
        await calls_what_is_not_faked()


async def test_fake_services_without_a_virtual_clock_are_refused():
    with pytest.raises(ValueError, match="services need a VirtualClock"):
        async with operated(CallingOperator, services=SERVICES):
            pass


@pytest.mark.parametrize(
    "url",
    [
        *("registry:5000", "ftp://a", "ftp://a:21", "http://a/path", "http://", "http://a:x"),
        *("http://jane@a", "http://a?b", "http://a#b"),
    ],
)
def test_assert_holds_refuses_a_service_address_that_is_no_http_host(url: str):
    with pytest.raises(ValueError, match=rf"services: '{re.escape(url)}' is no http\(s\)://HOST"):
        assert_holds(CallingOperator, seeds=[1], services={url: tag})


@pytest.mark.parametrize("second", ["http://a:80", "http://A.", "http://a/", "https://a:80"])
def test_assert_holds_refuses_two_service_addresses_of_the_same_host_and_port(second: str):
    with pytest.raises(ValueError, match=f"services: '{second}' is a second URL of a:80"):
        assert_holds(CallingOperator, seeds=[1], services={"http://a": tag, second: tag})


@pytest.mark.parametrize(
    ("path", "is_upkeep"),
    [
        ("/api/v1/namespaces/a/events", True),
        ("/apis/events.k8s.io/v1/namespaces/a/events/b?force=true", True),
        ("/apis/coordination.k8s.io/v1/namespaces/a/leases/b", True),
        ("/apis/coordination.k8s.io/v1/leases?watch=true", True),
        ("/apis/argoproj.io/v1alpha1/namespaces/a/eventsources", False),
        ("/apis/example.com/v1/namespaces/a/events", False),
        ("/apis/example.com/v1/namespaces/a/leases", False),
        ("/api/v1/namespaces/events/pods/leases", False),
        ("PUT https://a/api/v1/events", False),
    ],
)
def test_sent_request_is_upkeep_only_for_the_resources_events_and_leases(path: str, is_upkeep: bool):
    assert Sent("manager", "PUT", path).is_upkeep == is_upkeep
