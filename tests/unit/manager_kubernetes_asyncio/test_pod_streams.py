"""exec, attach, port-forward and logs, over sockets and in the test's process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import generate_latest

from devcluster import DevCluster
from devcluster.api.pod_sessions import Process, Session
from manager.api import ObjectKey, ObjectMeta
from manager.kube.config import load_config
from manager.kube.errors import (
    BadRequest,
    ConnectionLost,
    DeadlineExceeded,
    Fenced,
    NotFound,
    ProtocolError,
    ServerError,
)
from manager.kube.http_wire import HttpWire
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from manager_kinds.core_v1 import Pod
from manager_kubernetes_asyncio.pod_streams import LONGEST_LINE, PodStreams, split_lines
from manager_tools.testing import LocalWire
from tests.support.running_pods import create_running_pod
from tests.support.scripted_wire import Reply, ScriptedWire, Stream
from tests.unit.connected import connected

WEB = ObjectKey("default", "web")
LOG = "/api/v1/namespaces/default/pods/web/log"


class Scene:
    """Control plane with a running pod, and a client of its streams."""

    def __init__(self, cluster: DevCluster, transport: Transport, metrics: Metrics) -> None:
        self.cluster = cluster
        self.transport = transport
        self.metrics = metrics
        self.streams = PodStreams(transport)
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()

    async def hang(self, _: Process) -> int:
        """Run a process that only a cancellation ends."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        return 0


@pytest.fixture(params=["http", "local"])
async def scene(request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    async with DevCluster(controllers=False) as cluster:
        await create_running_pod(cluster)
        if request.param == "http":
            path = str(cluster.kubeconfig_path)
            wire: Any = HttpWire(await load_config(kubeconfig=path, context=None, environ={}))
        else:
            wire = LocalWire(cluster)
        _, transport, _, metrics = connected(wire)
        yield Scene(cluster, transport, metrics)
        await transport.aclose()


async def cat(process: Process) -> int:
    while data := await process.read():
        await process.write(data)
    return 0


@pytest.mark.each_loop
async def test_exec_returns_output_and_exit_code(scene: Scene):
    async def run(process: Process) -> int:
        await process.write(" ".join(process.command).encode())
        await process.write(process.container.encode(), stderr=True)
        return 3

    scene.cluster.sessions.exec = run
    pod = Pod(metadata=ObjectMeta(name="web", namespace="default"))
    result = await scene.streams.exec(pod, ["run", "a b", "ü"], container="main")
    assert (result.exit_code, result.stdout, result.stderr) == (3, "run a b ü".encode(), b"main")
    page = generate_latest(scene.metrics.registry).decode()
    assert 'rest_client_requests_total{code="101"' in page


@pytest.mark.each_loop
@pytest.mark.parametrize("size", [None, 0, 5, 3_000_000])
async def test_exec_writes_stdin_and_reads_output_concurrently(scene: Scene, size: int | None):
    scene.cluster.sessions.exec = cat
    stdin = None if size is None else random.Random(2).randbytes(size)
    result = await scene.streams.exec(WEB, ["cat"], stdin=stdin, limit=(size or 0) + 1)
    assert (result.exit_code, result.stdout) == (0, stdin or b"")


async def test_exec_raises_an_error_when_the_command_output_exceeds_the_limit(scene: Scene):
    async def yes(process: Process) -> int:
        try:
            while True:
                await process.write(b"y\n" * 1000)
        finally:
            scene.ended.set()

    scene.cluster.sessions.exec = yes
    with pytest.raises(ProtocolError, match="exec of pod default/web: it printed more than 10000 bytes"):
        await scene.streams.exec(WEB, ["yes"], limit=10_000)
    await asyncio.wait_for(scene.ended.wait(), 10)


async def test_exec_ends_the_command_when_its_timeout_has_passed(scene: Scene):
    scene.cluster.sessions.exec = scene.hang
    with pytest.raises(DeadlineExceeded, match=r"exec of pod default/web: has not ended within 0\.2 s"):
        await scene.streams.exec(WEB, ["sleep"], timeout=0.2)
    await asyncio.wait_for(scene.ended.wait(), 10)


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda scene, running: running.cancel(), asyncio.CancelledError),
        (lambda scene, _: scene.transport.fence("the lease is lost"), Fenced),
        (lambda scene, _: scene.transport.fence_work("the lease is lost"), Fenced),
    ],
    ids=["cancelled", "fence", "fence_work"],
)
async def test_exec_ends_the_command_when_it_is_cancelled_or_the_lease_is_lost(
    scene: Scene, end: Callable[[Scene, asyncio.Task[Any]], object], error: type[BaseException]
):
    scene.cluster.sessions.exec = scene.hang
    running = asyncio.create_task(scene.streams.exec(WEB, ["sleep"]))
    await scene.begun.wait()
    assert scene.transport.writes_in_flight == 0  # Events need not wait for it
    end(scene, running)
    with pytest.raises(error):
        await running
    await asyncio.wait_for(scene.ended.wait(), 10)


async def test_exec_starts_no_command_after_the_lease_is_lost(scene: Scene):
    scene.cluster.sessions.exec = scene.hang
    scene.transport.fence("the lease is lost")
    with pytest.raises(Fenced, match="the lease is lost"):
        await scene.streams.exec(WEB, ["sleep"])
    assert not scene.begun.is_set()


async def test_attach_transfers_data_in_both_directions_until_the_process_ends(scene: Scene):
    scene.cluster.sessions.attach = cat
    async with scene.streams.attach(WEB, container="main", stdin=True) as attached:
        for text in (b"one", b"two"):
            await attached.write(text)
            assert await anext(attached) == ("stdout", text)
        assert attached.exit_code is None
        await attached.close_stdin()
        assert [each async for each in attached] == []
        assert attached.exit_code == 0


async def test_attach_refuses_writes_after_the_lease_is_lost(scene: Scene):
    scene.cluster.sessions.attach = cat
    async with scene.streams.attach(WEB, stdin=True) as attached:
        scene.transport.fence_at(asyncio.get_running_loop().time())
        with pytest.raises(Fenced):
            await attached.write(b"after")


async def test_port_forward_transfers_bytes_in_both_directions(scene: Scene):
    async def shout(_: dict[str, Any], port: int, session: Session) -> None:
        await session.write(b"port %d: " % port)
        await session.write((await session.read()).upper())

    scene.cluster.sessions.port = shout
    async with scene.streams.port_forward(WEB, 8080) as connection:
        assert await connection.read() == b"port 8080: "
        await connection.write(b"hello")
        assert [each async for each in connection] == [b"HELLO"]
        assert await connection.read() == b""


async def test_port_forward_to_a_closed_port_raises_the_error_of_the_kubelet(scene: Scene):
    async with scene.streams.port_forward(WEB, 8080) as connection:
        with pytest.raises(ConnectionLost, match=r"port 8080 of pod default/web: .* connection refused"):
            await connection.read()


async def test_exec_raises_the_error_of_the_api_server_or_the_kubelet(scene: Scene):
    with pytest.raises(NotFound, match='pods "other" not found'):
        await scene.streams.exec(ObjectKey("default", "other"), ["ls"])
    with pytest.raises(BadRequest, match="container no is not valid for pod web"):
        await scene.streams.exec(WEB, ["ls"], container="no")
    with pytest.raises(ServerError, match=r'exec: "ls": executable file not found in \$PATH'):
        await scene.streams.exec(WEB, ["ls"])


async def test_exec_refuses_a_command_string_and_a_pod_without_a_namespace(scene: Scene):
    with pytest.raises(ValueError, match="a pod has a namespace and a name"):
        await scene.streams.exec(ObjectKey("", "web"), ["ls"])
    with pytest.raises(TypeError, match="a list of its words"):
        await scene.streams.exec(WEB, "ls")


@pytest.fixture
async def streams(transport: Transport) -> PodStreams:
    return PodStreams(transport)


@pytest.mark.virtual_time
async def test_pod_logs_yield_lines_of_text(wire: ScriptedWire, streams: PodStreams):
    wire.on("GET", LOG, Reply(body="one\nzwölf\n\nno end".encode()))
    since = datetime(2026, 11, 21, 13, 0, 1, 500, tzinfo=UTC)
    lines = streams.logs(WEB, container="main", previous=True, tail_lines=0, since=since, timestamps=True)
    assert [line async for line in lines] == ["one", "zwölf", "", "no end"]
    (sent,) = wire.sent("GET", LOG)
    assert sent.query == {
        "container": "main",
        "previous": "true",
        "tailLines": "0",
        "sinceTime": "2026-11-21T13:00:01Z",
        "timestamps": "true",
    }


@pytest.mark.virtual_time
async def test_followed_pod_logs_close_the_connection_when_the_reader_stops_or_after_silence(
    wire: ScriptedWire, streams: PodStreams
):
    read, silent = Stream(), Stream()
    wire.on("GET", LOG, read, silent)
    read.feed(b"one\ntw")
    async with aclosing(streams.logs(WEB, follow=True)) as lines:
        assert await anext(lines) == "one"
    with pytest.raises(DeadlineExceeded, match="nothing came for 7 s"):
        await anext(streams.logs(WEB, follow=True, idle_timeout=7))
    assert (read.closed, silent.closed, wire.in_progress) == (True, True, 0)


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


@pytest.mark.parametrize("at_once", [True, False])
async def test_split_lines_yields_an_overlong_line_in_pieces(at_once: bool):
    endless = b"x" * (2 * LONGEST_LINE + 10)
    arriving = pieces(endless + b"\nshort\n") if at_once else pieces(endless[:5], endless[5:], b"\nshort\n")
    parts = [line async for line in split_lines(arriving, LONGEST_LINE)]
    assert parts[-1] == b"short"
    assert b"".join(parts[:-1]) == endless
    assert max(map(len, parts)) <= LONGEST_LINE


async def test_split_lines_drops_a_partial_line_when_the_connection_is_lost():
    async def breaking() -> AsyncIterator[bytes]:
        yield b"one\ntw"
        raise ConnectionLost("cut")

    lines = split_lines(breaking(), LONGEST_LINE)
    assert await anext(lines) == b"one"
    with pytest.raises(ConnectionLost):
        await anext(lines)
