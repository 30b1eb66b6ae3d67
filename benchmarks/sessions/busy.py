"""A session of one program: its start, idle time, a start with many objects, and rising load."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING

import uvloop

from benchmarks.api_load import MEMCACHEDS, Client, Connection
from benchmarks.program import Setting
from benchmarks.sessions.plane import create, delete_copies, fresh_plane, name_of, store_copies
from benchmarks.sessions.process import (
    Machine,
    health_ports,
    peak_mb,
    resident_mb,
    started,
    wait_quiet,
    wait_ready,
)
from benchmarks.sessions.requests import Requests, conflicts, events, writes
from benchmarks.status_watch import StatusWatch
from benchmarks.summary import quantile
from tests.support.memcacheds import memcached

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from benchmarks.parts import Sizes
    from benchmarks.program import Program
    from benchmarks.results import Recorder, Results
    from tests.support.daemon import Daemon
    from tests.support.envtest import EnvtestControlPlane

PARTS = ("startup", "memory", "cold", "latency")
CONNECTIONS = 32
START_WITHIN = 30.0
COLD_WITHIN = 90.0
RATE_WITHIN = 60.0


def missing(
    parts: Collection[str], results: Results, peer: str, number: int, sizes: Sizes
) -> Iterator[tuple[str, str]]:
    groups = {
        "startup": [""],
        "cold": [""],
        "memory": ["idle", "objects"],
        "latency": [f"at_{rate}" for rate in sizes.rates],
    }
    for part in parts:
        figures = results.sample(part, peer, number).figures
        for group in groups[part]:
            if not any(key.startswith(f"{group}.") or not group for key in figures):
                yield part, group


class Busy:
    """The measurements of one program in one round."""

    def __init__(
        self,
        program: Program,
        number: int,
        sizes: Sizes,
        recorder: Recorder,
        step: Callable[[str], None],
    ) -> None:
        self.program = program
        self.number = number
        self.sizes = sizes
        self.recorder = recorder
        self.step = step

    def run(self, parts: Collection[str]) -> None:
        """Measure the given parts on a new control plane."""
        self.step("a control plane")
        with fresh_plane() as plane:
            if {"startup", "memory"} & set(parts):
                self._start(plane)
            if {"cold", "memory", "latency"} & set(parts):
                self._work(plane, with_latency="latency" in parts)

    def _start(self, plane: EnvtestControlPlane) -> None:
        self.step("start and idle")
        create(plane, 0)
        with StatusWatch(plane) as watch, health_ports() as (address,):
            began = time.monotonic()
            with started(self.program, plane, Setting(health_address=address)) as process:
                figures = {}
                if self.program.tells_readiness:
                    figures["ready_s"] = wait_ready(process, address, START_WITHIN) - began
                watch.wait(1, process, START_WITHIN)
                figures["first_s"] = watch.converged[name_of(0)] - began
                time.sleep(self.sizes.settle)
                figures["cpu_s"] = process.cpu_seconds()
                self.recorder.record("startup", self.number, figures)
                memory = {"mb": resident_mb(process), "peak_mb": peak_mb(process)}
                self.recorder.record("memory", self.number, memory, group="idle")
        delete_copies(plane, 0, 1)

    def _work(self, plane: EnvtestControlPlane, *, with_latency: bool) -> None:
        self.step("cold start")
        total = self.sizes.objects
        with StatusWatch(plane) as watch, health_ports() as (address,):
            create(plane, 0)
            store_copies(plane, 1, total, of=0)
            watch.wait_seen(total, START_WITHIN)
            counted, server = Requests(plane), plane.part("apiserver")
            server_cpu, began = server.cpu_seconds(), time.monotonic()
            with started(self.program, plane, Setting(health_address=address)) as process:
                watch.wait(1, process, START_WITHIN)
                first_cpu, already = process.cpu_seconds(), len(watch.converged)
                watch.wait(total, process, COLD_WITHIN)
                last = max(watch.converged.values())
                # The program's remaining work, such as reading back its writes, belongs to the measurement.
                wait_quiet(process, at_least=self.sizes.settle, timeout=10.0)
                cpu, server_cpu = process.cpu_seconds(), server.cpu_seconds() - server_cpu
                requests = counted.so_far()
                figures = {
                    "rate": total / (last - began),
                    "cpu_ms": (cpu - first_cpu) / max(1, total - already) * 1000,
                    "cpu_s": cpu,
                    "server_cpu_ms": server_cpu / total * 1000,
                    "writes": writes(requests) / total,
                    "conflicts": conflicts(requests),
                    "events": events(requests),
                }
                self.recorder.record("cold", self.number, figures, requests=requests)
                memory = {"mb": resident_mb(process), "peak_mb": peak_mb(process)}
                self.recorder.record("memory", self.number, memory, group="objects")
                if with_latency:
                    for rate in self.sizes.rates:
                        self._latency(plane, watch, process, rate)

    def _latency(self, plane: EnvtestControlPlane, watch: StatusWatch, process: Daemon, rate: int) -> None:
        seconds = self.sizes.seconds_of(rate)
        self.step(f"{rate} new objects/s")
        names = [f"at-{rate}-{index:05d}" for index in range(round(rate * seconds))]
        before, machine = len(watch.converged), Machine()
        load = create_steadily(plane.kubeconfig, names, rate, lambda: len(watch.converged))
        idle = machine.idle_share()
        watch.wait(before + len(names), process, RATE_WITHIN)
        delays = sorted((watch.converged[name] - watch.seen[name]) * 1000 for name in names)
        figures = {
            "reached": load.reached,
            "p50_ms": quantile(delays, 0.5),
            "p90_ms": quantile(delays, 0.9),
            "p99_ms": quantile(delays, 0.99),
            "behind": load.behind,
            "idle": idle * 100,
        }
        self.recorder.record("latency", self.number, figures, group=f"at_{rate}")
        time.sleep(self.sizes.settle / 4)


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """The result of a period in which objects were created at a constant rate."""

    reached: float
    """The objects per second that the API server accepted."""
    behind: int
    """The number of objects without a status when the last object was created."""


def create_steadily(kubeconfig: Path, names: list[str], rate: float, finished: Callable[[], int]) -> Load:
    """Create Memcacheds with these names, `rate` per second; `finished` returns how many have a status.

    A slow response does not delay the next request, because each request gets a free connection.
    """
    requests = [(name, memcached(name)) for name in names]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_create(Client(kubeconfig), requests, rate, finished))


async def _create(
    client: Client, objects: list[tuple[str, object]], rate: float, finished: Callable[[], int]
) -> Load:
    encoded = [client.request("POST", MEMCACHEDS, body) for _, body in objects]
    free: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
    connections = await client.connect(CONNECTIONS)
    for connection in connections:
        free.put_nowait(connection)
    loop = asyncio.get_running_loop()

    async def send(request: bytes) -> None:
        connection = await free.get()
        await connection.send(request)
        free.put_nowait(connection)

    before, start = finished(), loop.time()
    async with asyncio.TaskGroup() as group:
        for index, request in enumerate(encoded):
            await asyncio.sleep(max(0.0, start + index / rate - loop.time()))
            group.create_task(send(request))
    taken = loop.time() - start
    behind = len(encoded) - (finished() - before)
    for connection in connections:
        await connection.close()
    # The last object is created at the beginning of its interval.
    return Load(len(encoded) / max(taken, len(encoded) / rate), behind)
