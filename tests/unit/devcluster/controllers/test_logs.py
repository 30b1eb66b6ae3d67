from __future__ import annotations

import asyncio
import datetime

import pytest

from devcluster.api.interfaces import LogOptions
from devcluster.controllers import PodLogs
from devcluster.controllers.container_runtime import ContainerRuntime
from devcluster.controllers.controller import View
from devcluster.errors import StatusError
from tests.unit.devcluster.controllers.conftest import Cluster, pod

pytestmark = pytest.mark.virtual_time


async def test_pod_logs_respect_the_tail_since_and_timestamps_options(cluster: Cluster):
    await cluster.settled("pods", pod(), 12)
    lines = await cluster.logs()
    assert lines == [b"c: started from image nginx:1\n", b"c: running for 5s\n", b"c: running for 10s\n"]
    assert await cluster.logs(tail_lines=1) == lines[-1:]
    assert await cluster.logs(tail_lines=0) == []
    assert await cluster.logs(since=cluster.clock.now() - datetime.timedelta(seconds=4)) == lines[-1:]
    assert (await cluster.logs(timestamps=True))[0] == b"2027-01-15T08:00:00.000000000Z " + lines[0]


async def test_pod_log_stream_ends_when_the_pod_is_deleted(cluster: Cluster):
    await cluster.settled("pods", pod(), 12)
    logs = PodLogs(cluster.store, cluster.clock, ContainerRuntime(View(cluster.store)))
    lines: list[bytes] = []

    async def follow() -> None:
        async for line in logs.stream(cluster.get("pods", "p"), "c", LogOptions(follow=True, tail_lines=0)):
            lines.append(line)  # noqa: PERF401 -- read before the stream ends

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(follow())
        await cluster.settle(10)
        assert lines == [b"c: running for 15s\n", b"c: running for 20s\n"]
        await cluster.client.delete("pods", "x", "p")
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("image", "previous", "message"),
    [
        (
            "no-such-image",
            False,
            'container "c" in pod "p" is waiting to start: trying and failing to pull image',
        ),
        ("nginx:1", True, 'previous terminated container "c" in pod "p" not found'),
    ],
)
async def test_pod_log_request_is_refused_when_the_container_has_not_started_or_has_no_previous_run(
    cluster: Cluster, image: str, previous: bool, message: str
):
    await cluster.settled("pods", pod(image=image))
    with pytest.raises(StatusError, match=message) as caught:
        await cluster.logs(previous=previous)
    assert caught.value.code == 400


async def test_pod_logs_contain_the_crash_message_or_the_text_of_the_log_annotation(cluster: Cluster):
    await cluster.settled("pods", pod(image="x:crash-loop"))
    assert (await cluster.logs(previous=True))[-1] == b"c: failed with exit code 1\n"
    annotations = {"devcluster.local/log": "first\nsecond\n"}
    await cluster.settled("pods", pod("told", annotations=annotations), seconds=30)
    assert await cluster.logs("told") == [b"first\n", b"second\n"]
    assert await cluster.logs("told", tail_lines=1) == [b"second\n"]


async def test_pod_log_stream_contains_each_line_when_its_reader_is_slow(cluster: Cluster):
    await cluster.settled("pods", pod(), 2)
    logs = PodLogs(cluster.store, cluster.clock, ContainerRuntime(View(cluster.store)))
    lines: list[bytes] = []

    async def follow(seconds: float) -> None:
        async for line in logs.stream(cluster.get("pods", "p"), "c", LogOptions(follow=True)):
            lines.append(line)
            await asyncio.sleep(seconds)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(follow(7))
        await cluster.settle(14)
        await cluster.patch("pods", "p", {"spec": {"activeDeadlineSeconds": 18}})
    shown = [f"c: running for {number}s\n".encode() for number in (5, 10, 15)]
    assert lines == [b"c: started from image nginx:1\n", *shown, b"c: failed with exit code 137\n"]
