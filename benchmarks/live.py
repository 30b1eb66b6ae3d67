"""Measure the CPU time per change: the Memcached operator runs with a fake server without delays.

    python -m benchmarks.live [--only new-object|change] [--rounds N] [--calls N]

The measured work begins with the bytes of a watch event, and ends with the last response; sockets and
encryption are excluded. `new-object` is a new Memcached, for which the operator writes a Deployment and a
status. `change` gives a Memcached another size: two reconciles, an apply, and two writes of the status.

Microseconds of CPU depend on the machine. To find the cause of a slowdown, count instructions instead: with
`--calls` the work is repeated N times without a measurement (docs/benchmarks/profiles.md).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import statistics
import sys
import time
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from benchmarks.table import table
from controllers.cache.memcached import MemcachedOperator
from manager.kube.transport import Transport
from manager.kube.wire import Wire
from manager.operator.reconciler import add_controller
from manager.process.manager import Manager
from manager.settings import SettingValues
from manager.telemetry.logs import configured
from manager.telemetry.metrics import Metrics
from manager.util.loop import loop_factory
from manager.util.memory import tune_garbage_collector
from manager.util.program import Program

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from manager.kube.wire import WireRequest, WireResponse

    Work = Callable[[], Awaitable[None]]

Object = dict[str, Any]

OBJECTS = 40
"""The number of objects that one repetition creates or changes."""

MEMCACHEDS = "/apis/cache.example.com/v1/memcacheds"
DEPLOYMENTS = "/apis/apps/v1/deployments"
SIZES = (3, 4)


SAMPLES = Path(__file__).parent / "samples"


@cache
def sample(kind: str) -> bytes:
    """Return the sample `memcached` (finished), `deployment`, or `applied` (fieldsV1 of the Deployment)."""
    return orjson.dumps(orjson.loads((SAMPLES / f"{kind}.json").read_bytes()))


def _kinds() -> dict[str, bytes]:
    found = {
        "/apis/cache.example.com/v1": ("memcacheds", "Memcached"),
        "/apis/apps/v1": ("deployments", "Deployment"),
        "/api/v1": ("pods", "Pod"),
    }
    return {
        path: orjson.dumps({"resources": [{"name": name, "kind": kind, "namespaced": True}]})
        for path, (name, kind) in found.items()
    }


class Answer:
    """A request in progress and its response; implements `manager.kube.wire.WireResponse`."""

    status = 200
    headers: dict[str, str] = {}  # noqa: RUF012 - constant

    def __init__(self, body: bytes, arriving: asyncio.Queue[bytes] | None = None) -> None:
        self._body = body
        self._arriving = arriving

    async def __aenter__(self) -> WireResponse:
        """Return the response in the next iteration of the event loop."""
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: there is no connection to release."""

    async def read(self, limit: int = 0) -> bytes:  # noqa: ARG002 -- the name is the protocol's
        """Return the whole body of the response."""
        return self._body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the watch events, for as long as the watch is open."""
        yield self._body
        assert self._arriving is not None
        while True:
            yield await self._arriving.get()


class Server(Wire):
    """A fake of `manager.kube.wire.Wire` that supports only the Memcached operator's requests."""

    host = "at-once"

    def __init__(self) -> None:
        self._kinds = _kinds()
        self._watches: defaultdict[str, asyncio.Queue[bytes]] = defaultdict(asyncio.Queue)
        self._versions = itertools.count(1000)
        self.memcacheds: dict[str, Object] = {}
        self.deployments: dict[str, Object] = {}
        self.status_written: Callable[[str], None] = lambda _: None
        """A callback that gets the name of each object whose status was written."""
        created = _sampled("deployment", "0")
        created.pop("status")
        created["metadata"].pop("annotations")
        created["metadata"]["managedFields"].pop()
        self._created = orjson.dumps(created)
        [self._creator] = [entry["manager"] for entry in created["metadata"]["managedFields"]]

    def exchange(self, request: WireRequest) -> Answer:
        """Respond to a request as an API server does."""
        path, _, query = request.path.partition("?")
        if "watch=true" in query:
            end = {
                "type": "BOOKMARK",
                "object": {
                    "metadata": {
                        "resourceVersion": str(next(self._versions)),
                        "annotations": {"k8s.io/initial-events-end": "true"},
                    }
                },
            }
            return Answer(orjson.dumps(end) + b"\n", self._watches[path])
        if request.method == "GET":
            return Answer(self._kinds[path])
        assert request.body is not None
        if "/events" in path:
            return Answer(b"{}")
        if request.method == "POST":
            return Answer(self._create(orjson.loads(request.body), query))
        name = path.split("/")[7]
        if path.endswith("/status"):
            return Answer(self._patch_status(name, orjson.loads(request.body)))
        return Answer(self._apply(name, orjson.loads(request.body)))

    def abort(self) -> None:
        """Do nothing: there is no connection to break."""

    async def aclose(self) -> None:
        """Do nothing: there is no connection to close."""

    def send_event(self, kind: str, path: str, obj: Object) -> bytes:
        """Give the object a new resource version, and send a watch event with it."""
        obj["metadata"]["resourceVersion"] = str(next(self._versions))
        raw = orjson.dumps(obj)
        self._watches[path].put_nowait(b'{"type":"%b","object":%b}\n' % (kind.encode(), raw))
        return raw

    def _create(self, wanted: Object, query: str) -> bytes:
        metadata = wanted["metadata"]
        number = metadata["name"].rpartition("-")[2]
        manager = query.partition("fieldManager=")[2].partition("&")[0].replace("%2B", "+")
        raw = self._created.replace(b"memcached-0", metadata["name"].encode())
        raw = raw.replace(_uid("memcached", "0"), _uid("memcached", number))
        obj: Object = orjson.loads(raw.replace(self._creator.encode(), manager.encode()))
        obj["metadata"]["uid"] = _uid("deployment", number).decode()
        self.deployments[metadata["name"]] = obj
        return self.send_event("ADDED", DEPLOYMENTS, obj)

    def _apply(self, name: str, wanted: Object) -> bytes:
        deployment = self.deployments[name]
        deployment["spec"]["replicas"] = wanted["spec"]["replicas"]
        deployment["metadata"]["generation"] += 1
        return self.send_event("MODIFIED", DEPLOYMENTS, deployment)

    def _patch_status(self, name: str, patch: list[Object]) -> bytes:
        memcached = self.memcacheds[name]
        for operation in patch:
            if operation["op"] == "add":
                _, _, field = operation["path"][1:].partition("/")
                if field:
                    memcached["status"][field] = operation["value"]
                else:
                    memcached["status"] = operation["value"]
        raw = self.send_event("MODIFIED", MEMCACHEDS, memcached)
        if any(operation["op"] != "test" for operation in patch):  # otherwise the patch has only tests
            self.status_written(name)
        return raw


def _uid(kind: str, number: str) -> bytes:
    return f"{kind[:8].encode().hex()[:8]}-a241-4235-b771-{int(number):012}".encode()


def _sampled(kind: str, number: str) -> Object:
    raw = sample(kind)
    for each in ("memcached", "deployment"):
        raw = raw.replace(orjson.loads(sample(each))["metadata"]["uid"].encode(), _uid(each, number))
    document: Object = orjson.loads(raw.replace(b"memcached-sample", f"memcached-{number}".encode()))
    return document


class World:
    """A manager, not started yet, with the Memcached operator."""

    def __init__(self, wire: Wire) -> None:
        metrics, rng = Metrics(), random.Random(1)
        self.transport = Transport(wire, metrics=metrics, rng=rng, user_agent="benchmark")
        settings = {key: key.default_value() for key in MemcachedOperator.declared_settings}
        self.manager = Manager(
            self.transport,
            program=Program("operator-manager", "0"),
            metrics=metrics,
            rng=rng,
            identity="benchmark",
            settings=SettingValues(settings),
        )
        self.cache = self.manager.cache
        self.operator = MemcachedOperator(self.manager)
        self.operator.proxy = []
        self.client = self.operator.client


@contextlib.asynccontextmanager
async def working(server: Server) -> AsyncIterator[World]:
    with open(os.devnull, "wb") as null, configured(level="warn", log_format="json", fd=null.fileno()):  # noqa: ASYNC230, PTH123 -- takes no time
        async with _running(World(server)) as world:
            yield world


@contextlib.asynccontextmanager
async def _running(world: World) -> AsyncIterator[World]:
    controller = add_controller(world.operator)
    assert controller is not None
    stop = asyncio.Event()
    running = asyncio.create_task(world.manager.run(stop))
    try:
        while controller.state.value != "running":  # noqa: ASYNC110 -- no event reports that the caches are synced
            await asyncio.sleep(0)
        yield world
    finally:
        stop.set()
        await running


class _Written:
    """A waiter for a given number of status writes of each object."""

    def __init__(self, server: Server) -> None:
        server.status_written = self._note
        self._left = 0
        self._all = asyncio.Event()
        self.then: Callable[[str], bool] = lambda _: True
        """A callback that returns whether a status write of the object was the last expected one."""

    def _note(self, name: str) -> None:
        if self.then(name):
            self._left -= 1
            if not self._left:
                self._all.set()

    async def all(self, count: int) -> None:
        self._left = count
        self._all.clear()
        await self._all.wait()
        for _ in range(4):  # these turns of the loop process the events of the last write
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def new_objects() -> AsyncIterator[Work]:
    """Run the operator; yield a function that creates objects, and waits until their statuses are written."""
    server, numbers = Server(), itertools.count(1)
    template = _sampled("memcached", "0")
    template.pop("status")
    template["metadata"]["managedFields"].pop()
    raw = orjson.dumps(template)
    async with working(server):
        written = _Written(server)

        async def work() -> None:
            for number in itertools.islice(numbers, OBJECTS):
                name = f"memcached-{number}"
                obj = orjson.loads(raw.replace(b"memcached-0", name.encode()))
                obj["metadata"]["uid"] = _uid("memcached", str(number)).decode()
                server.memcacheds[name] = obj
                server.send_event("ADDED", MEMCACHEDS, obj)
            await written.all(OBJECTS)

        yield work


@contextlib.asynccontextmanager
async def changes() -> AsyncIterator[Work]:
    server = Server()
    async with working(server) as world:
        written, sizes, steps = _Written(server), itertools.cycle(SIZES), defaultdict[str, int](int)

        def rolls_out(name: str) -> bool:
            steps[name] += 1
            if steps[name] % 2 == 0:
                return True
            deployment = server.deployments[name]
            size = deployment["spec"]["replicas"]
            counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
            deployment["status"].update(dict.fromkeys(counts, size))
            deployment["status"]["observedGeneration"] = deployment["metadata"]["generation"]
            server.send_event("MODIFIED", DEPLOYMENTS, deployment)
            return False

        for number in range(1, OBJECTS + 1):
            deployment = _sampled("deployment", str(number))
            # The reconcile must be as after an update, not only as after the creation.
            entry = deployment["metadata"]["managedFields"][0]
            entry |= {"manager": world.client.field_manager, "operation": "Apply"}
            entry["fieldsV1"] = _sampled("applied", str(number))
            server.deployments[deployment["metadata"]["name"]] = deployment
            server.send_event("ADDED", DEPLOYMENTS, deployment)
        for number in range(1, OBJECTS + 1):
            memcached = _sampled("memcached", str(number))
            server.memcacheds[memcached["metadata"]["name"]] = memcached
            server.send_event("ADDED", MEMCACHEDS, memcached)
        await written.all(OBJECTS)  # there are no pods
        written.then = rolls_out

        async def work() -> None:
            size = next(sizes)
            for obj in server.memcacheds.values():
                obj["spec"]["size"] = size
                obj["metadata"]["generation"] += 1
                server.send_event("MODIFIED", MEMCACHEDS, obj)
            await written.all(OBJECTS)

        next(sizes)
        yield work


WORK: dict[str, Callable[[], AbstractAsyncContextManager[Work]]] = {
    "new-object": new_objects,
    "change": changes,
}


async def measure(name: str, rounds: int) -> list[float]:
    found = []
    async with WORK[name]() as work:
        await work()
        for _ in range(rounds):
            started = time.process_time()
            await work()
            found.append((time.process_time() - started) / OBJECTS * 1e6)
    return found


async def repeat(name: str, calls: int) -> None:
    async with WORK[name]() as work:
        for _ in range(calls):
            await work()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.live",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", choices=WORK, help="default: both")
    parser.add_argument("--rounds", type=int, default=20, help="of 40 objects each (%(default)s)")
    parser.add_argument("--calls", type=int, metavar="N", help="do the work N times, and measure nothing")
    options = parser.parse_args(arguments)
    tune_garbage_collector()
    rows = []
    for name in [options.only] if options.only else WORK:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            if options.calls:
                runner.run(repeat(name, options.calls))
            else:
                times = runner.run(measure(name, options.rounds))
                rows.append([name, statistics.median(times), min(times), max(times)])
    if rows:
        print(table(["", "CPU µs an object", "least", "most"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
