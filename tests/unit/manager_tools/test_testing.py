"""Helpers for tests of operators in `manager_tools.testing`."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import uvloop

from manager import Context, Operator
from manager.api import ObjectMeta
from manager.kube.errors import Forbidden
from manager.util import clock
from manager_kinds.batch_v1 import Job
from manager_kinds.core_v1 import ConfigMap, Namespace
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting, GreetingSpec
from manager_tools.simulation.loop import EPOCH, NotVirtual
from manager_tools.testing import VirtualClock, operated


async def test_error_of_world_until_shows_the_object_without_its_managed_fields():
    async with operated(kinds=(Greeting,)) as world:
        greeting = await world.create(Greeting(metadata=ObjectMeta(name="a"), spec=GreetingSpec(size=7)))
        with pytest.raises(AssertionError, match="still false after 0 s; at last:") as waited:
            await world.until(greeting, lambda it: it.status.size == 7, timeout=0)
    assert '"size": 7' in str(waited.value)
    assert "managedFields" not in str(waited.value)


@pytest.mark.virtual_time
async def test_world_until_checks_the_object_after_each_write_and_at_intervals():
    async with operated(kinds=(Greeting,)) as world:
        greeting = await world.create(Greeting(metadata=ObjectMeta(name="a"), spec=GreetingSpec(size=7)))
        seen: list[Greeting] = []

        def is_eight_after_five_seconds(found: Greeting) -> bool:
            seen.append(found)
            return found.spec.size == 8 and asyncio.get_running_loop().time() > began + 5

        began = asyncio.get_running_loop().time()
        waiting = asyncio.create_task(world.until(greeting, is_eight_after_five_seconds))
        await asyncio.sleep(2)
        await world.update(greeting, lambda it: setattr(it.spec, "size", 8))
        assert (await waiting).spec.size == 8
    assert 5 <= len(seen) < 20
    assert 2 <= len(set(map(id, seen))) < 10


class CopyOperator(Operator[Greeting]):
    name = "copy"
    owns = (ConfigMap,)

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        metadata = ObjectMeta(name=greeting.metadata.name, namespace=greeting.metadata.namespace)
        await ctx.apply(ConfigMap(metadata=metadata))


@pytest.mark.virtual_time
async def test_operated_manager_can_watch_and_read_only_the_given_namespaces():
    async with operated(CopyOperator, namespaces=["team-a", "default"]) as world:
        spec = GreetingSpec(size=7)
        for namespace in ("default", "other", ""):
            if namespace == "other":
                await world.client.create(Namespace(metadata=ObjectMeta(name=namespace)))
            await world.create(Greeting(metadata=ObjectMeta(name="a", namespace=namespace), spec=spec))
        await asyncio.sleep(5)
        found = await world.client.uncached.list(ConfigMap)
        assert world.namespace == "team-a"
        places = {each.metadata.namespace for each in found if each.metadata.name == "a"}
        assert places == {"team-a", "default"}
        with pytest.raises(Forbidden):
            await world.manager.client.uncached.list(ConfigMap, namespace="other")


START = datetime(2026, 3, 1, 8, 55, tzinfo=UTC)


async def test_event_loop_has_its_real_clock_again_after_the_virtual_clock_ends():
    loop = asyncio.get_running_loop()
    kind, before, real = type(loop), loop.time(), time.monotonic()
    timer = loop.call_later(7_200, print, "it is not due")
    async with operated(kinds=(Greeting,), clock=VirtualClock(START)):
        await asyncio.sleep(3_600)
    assert type(loop) is kind
    assert loop.time() - before == pytest.approx(time.monotonic() - real, abs=0.1)
    assert timer.when() - loop.time() == pytest.approx(3_600, abs=0.1)
    timer.cancel()
    began = time.monotonic()
    await asyncio.sleep(0.01)
    await asyncio.to_thread(time.sleep, 0.01)
    assert time.monotonic() - began >= 0.02
    assert abs(clock.now().timestamp() - time.time()) < 5
    async with operated(kinds=(Greeting,), clock=VirtualClock()) as world:  # a second clock starts anew
        tick = await world.create(Greeting(metadata=ObjectMeta(name="a")))
        assert tick.metadata.creation_timestamp == datetime.fromtimestamp(EPOCH, UTC)


async def test_finished_job_is_deleted_after_its_ttl_on_a_virtual_clock():
    virtual = VirtualClock(START)
    container: dict[str, Any] = {"name": "a", "image": "busybox", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec: Any = {"ttlSecondsAfterFinished": 1800, "template": template}
    async with operated(clock=virtual) as world:
        job = await world.create(Job(metadata=ObjectMeta(name="a"), spec=spec))
        await virtual.advance(minutes=29)
        assert await world.find(Job, "a") is not None
        await world.until_gone(job, timeout=3_600)
        assert virtual.now() - START < timedelta(minutes=40)


def test_virtual_clock_refuses_a_uvloop_event_loop():
    async def main() -> None:
        async with operated(clock=VirtualClock()):
            pass

    with pytest.raises(NotVirtual, match=r"asyncio.SelectorEventLoop, and the running loop is a uvloop.Loop"):
        uvloop.run(main())


async def test_virtual_clock_refuses_past_or_naive_times_and_use_outside_an_operated_block():
    with pytest.raises(ValueError, match="VirtualClock needs a start with a time zone"):
        VirtualClock(datetime(2026, 3, 1))  # noqa: DTZ001 -- tested here
    with pytest.raises(RuntimeError, match="within `async with operated"):
        await VirtualClock().advance(hours=1)
    virtual = VirtualClock(START)
    async with operated(clock=virtual):
        with pytest.raises(ValueError, match=r"it is 2026-03-01T08:55:00.*already"):
            await virtual.advance_to(START - timedelta(days=1))
        with pytest.raises(ValueError, match="does not go back, by 3600 s"):
            await virtual.advance(hours=-1)
        with pytest.raises(ValueError, match="needs a moment with a time zone"):
            await virtual.advance_to(datetime(2027, 3, 1))  # noqa: DTZ001 -- tested here
