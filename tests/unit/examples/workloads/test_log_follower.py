from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from examples.workloads.log_follower import IDLE_TIMEOUT, LogFollower
from manager.api import ObjectMeta
from manager.client import Client
from manager_kinds.core_v1 import Pod
from tests.support.scripted_wire import Reply, ScriptedWire, Stream

pytestmark = pytest.mark.virtual_time

LOG = "/api/v1/namespaces/n/pods/p/log"
WAITING = Reply.status(400, "BadRequest", 'container "web" in pod "p" is waiting to start')


class Followed:
    def __init__(self, client: Client) -> None:
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        pod = Pod(metadata=ObjectMeta(name="p", namespace="n"))
        self.follower = LogFollower(client, pod, "web", show=self._lines.put)

    async def lines(self, count: int) -> list[str]:
        """Wait for the next `count` lines of the log, and return them."""
        async with asyncio.timeout(1000):
            return [await self._lines.get() for _ in range(count)]

    @property
    def done(self) -> bool:
        """Return whether calls of `lines` have returned all lines that the follower has shown so far."""
        return self._lines.empty()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.create_task(self.follower.run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])


@pytest.fixture
async def followed(client: Client, wire: ScriptedWire) -> Followed:
    resources = [
        {"name": name, "kind": "Pod", "namespaced": True, "verbs": []} for name in ("pods", "pods/log")
    ]
    wire.on("GET", "/api/v1", Reply.json({"resources": resources}))
    return Followed(client)


async def test_log_follower_resumes_after_the_last_line_when_the_stream_is_cut(
    wire: ScriptedWire, followed: Followed
):
    first, second = Stream(), Stream()
    wire.on("GET", LOG, first, second)
    async with followed.running():
        first.feed(b"2026-11-21T12:00:01.1Z a\n2026-11-21T12:00:01.2Z b\n2026-11-21T12:0")
        assert await followed.lines(2) == ["a", "b"]
        first.cut()
        await second.opened.wait()
        second.feed(b"2026-11-21T12:00:01.1Z a\n2026-11-21T12:00:01.2Z b\n2026-11-21T12:00:01.3Z c\n")
        assert await followed.lines(1) == ["c"]
    assert followed.done
    queries = [sent.query for sent in wire.sent("GET", LOG)]
    assert queries[0] == {"container": "web", "follow": "true", "timestamps": "true"}
    assert queries[1] == queries[0] | {"sinceTime": "2026-11-21T12:00:01Z"}
    assert wire.in_progress == 0


async def test_log_follower_reconnects_when_no_line_arrives_in_time(wire: ScriptedWire, followed: Followed):
    first, second = Stream(), Stream()
    wire.on("GET", LOG, first, second)
    async with followed.running():
        await second.opened.wait()
        assert first.closed
        assert asyncio.get_running_loop().time() >= IDLE_TIMEOUT


async def test_log_follower_reports_an_unavailable_log_once_and_retries_with_growing_pauses(
    wire: ScriptedWire, followed: Followed, capsys: pytest.CaptureFixture[str]
):
    stream = Stream()
    wire.on("GET", LOG, WAITING, WAITING, WAITING, stream)
    async with followed.running():
        await stream.opened.wait()
    times = [sent.at for sent in wire.sent("GET", LOG)]
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[0] >= 0.25
    assert capsys.readouterr().err.splitlines() == [
        'no log of pod p for now: container "web" in pod "p" is waiting to start; trying again'
    ]


async def test_log_follower_shows_a_line_once_when_containers_restart(wire: ScriptedWire, followed: Followed):
    before, after = Reply(body=b"2026-11-21T12:00:01.1Z one life\n"), Stream()
    wire.on("GET", LOG, before, before, after)
    async with followed.running():
        await after.opened.wait()
        after.feed(b"2026-11-21T12:00:01.1Z one life\n2026-11-21T12:00:09.1Z another\n")
        assert await followed.lines(2) == ["one life", "another"]
    assert followed.done
