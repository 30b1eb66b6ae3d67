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


async def started(cluster: Cluster, image: str = "nginx:1") -> dict:
    await cluster.settled("pods", pod(image=image), 12)
    return cluster.get("pods", "p") or {}


async def test_lines_are_the_same_each_time_and_can_be_cut(cluster: Cluster):
    logs, found = (
        PodLogs(cluster.store, cluster.clock, ContainerRuntime(View(cluster.store))),
        await started(cluster),
    )
    lines = [line async for line in logs.stream(found, "c")]
    assert lines == [b"c: started from image nginx:1\n", b"c: running for 5s\n", b"c: running for 10s\n"]
    assert [line async for line in logs.stream(found, "c", LogOptions(tail_lines=1))] == lines[-1:]
    assert [line async for line in logs.stream(found, "c", LogOptions(tail_lines=0))] == []
    recent = cluster.clock.now() - datetime.timedelta(seconds=4)
    assert [line async for line in logs.stream(found, "c", LogOptions(since=recent))] == lines[-1:]
    (first, *_) = [line async for line in logs.stream(found, "c", LogOptions(timestamps=True))]
    time, _, text = first.partition(b" ")
    assert text == lines[0]
    assert time == b"2027-01-15T08:00:00.000000000Z"


async def test_followed_logs_end_when_the_pod_is_deleted(cluster: Cluster):
    logs, found = (
        PodLogs(cluster.store, cluster.clock, ContainerRuntime(View(cluster.store))),
        await started(cluster),
    )
    lines: list[bytes] = []

    async def follow() -> None:
        async for line in logs.stream(found, "c", LogOptions(follow=True, tail_lines=0)):
            lines.append(line)  # noqa: PERF401 -- seen while it goes on

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
async def test_logs_are_refused_when_there_are_no_lines_yet(
    cluster: Cluster, image: str, previous: bool, message: str
):
    logs, found = (
        PodLogs(cluster.store, cluster.clock, ContainerRuntime(View(cluster.store))),
        await started(cluster, image),
    )
    with pytest.raises(StatusError, match=message) as caught:
        logs.stream(found, "c", LogOptions(previous=previous))
    assert caught.value.code == 400


async def test_container_that_crashed_shows_its_last_words(cluster: Cluster):
    logs, found = (
        PodLogs(cluster.store, cluster.clock, ContainerRuntime(View(cluster.store))),
        await started(cluster, "x:crash-loop"),
    )
    lines = [line async for line in logs.stream(found, "c", LogOptions(previous=True))]
    assert lines[-1] == b"c: failed with exit code 1\n"
