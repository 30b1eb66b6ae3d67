"""A reconcile: the runner's overhead, and the whole pass of an operator that finds nothing to do."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import orjson

from apis.cache.v1.memcached import Memcached
from benchmarks.micro.benchmark import Benchmark, ready
from benchmarks.micro.documents import sample
from benchmarks.micro.suites.applying import contains, wanted
from benchmarks.micro.suites.queue import make_queue
from benchmarks.micro.world import World
from controllers.cache.memcached import MemcachedOperator
from manager.controller import Request
from manager.controller.queue import QueueItem
from manager.controller.worker import ControllerMetrics, Workers
from manager.operator.reconciler import ObjectReconciler
from manager.telemetry.logs import get_logger
from manager.telemetry.metrics import Metrics
from manager.telemetry.runs import History, Trigger
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import Pod

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.micro.benchmark import Work

KEY = Request("default", "memcached-sample")
TIMEOUT = 300.0


class Nothing:
    """A reconciler that does nothing."""

    async def reconcile(self, request: Request) -> None:
        """Do nothing."""


def called() -> Work:
    reconciler = Nothing()

    async def work() -> None:
        await reconciler.reconcile(KEY)

    return work


def run() -> Work:
    """Run a reconcile with its time limit, logger and metrics."""
    metrics = Metrics()
    workers = Workers(
        Nothing(),
        make_queue(),
        timeout=TIMEOUT,
        metrics=ControllerMetrics(metrics, "bench", workers=1, active=lambda: 0.0),
        log=get_logger("controller").bind(controller="bench"),
        rng=random.Random(1),
        runs=History().of("bench"),
    )
    item = QueueItem(KEY, 0, Trigger("event", 0.0, "MODIFIED", "for", "Memcached", *KEY, 41, 42))

    async def work() -> None:
        await workers.reconcile(item)

    return work


RUNNING = {
    "phase": "Running",
    "startTime": "2026-05-01T10:00:01Z",
    "conditions": [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-05-01T10:00:03Z"}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ],
    "containerStatuses": [
        {
            "name": "memcached",
            "state": {"running": {"startedAt": "2026-05-01T10:00:02Z"}},
            "lastState": {},
            "ready": True,
            "restartCount": 0,
        }
    ],
}


def pods() -> list[bytes]:
    """Return the pods of the sampled Memcached, reduced to the cached fields."""
    names = orjson.loads(sample("memcached"))["status"]["nodes"]
    labels = {"app": "memcached", "memcached_cr": KEY.name}
    return [
        orjson.dumps(
            {
                "kind": "Pod",
                "apiVersion": "v1",
                "metadata": {
                    "name": name,
                    "namespace": KEY.namespace,
                    "uid": name,
                    "resourceVersion": str(number),
                    "labels": labels,
                },
                "status": RUNNING,
            }
        )
        for number, name in enumerate(names, start=1)
    ]


def memcached() -> Work:
    """Reconcile a Memcached that needs no change."""
    world = World()
    world.hold(Memcached, sample("memcached"))
    world.hold(Deployment, sample("deployment"))
    (watched,) = MemcachedOperator.watches
    world.hold(Pod, *pods(), selection=watched.selection)
    return _of(ObjectReconciler(world.operator).reconcile)


def naive_memcached() -> Work:
    """Do the same with dicts: decode, compare the Deployment, list the pods, compare the status."""
    own, deployment, expected = sample("memcached"), sample("deployment"), wanted()
    index = {KEY.name: [orjson.loads(pod) for pod in pods()]}

    def work() -> None:
        obj: dict[str, Any] = orjson.loads(own)
        found: dict[str, Any] = orjson.loads(deployment)
        assert contains(found, expected)
        nodes = sorted(pod["metadata"]["name"] for pod in index[obj["metadata"]["name"]])
        status = {**obj["status"], "nodes": nodes, "readyReplicas": found["status"]["readyReplicas"]}
        assert contains(obj["status"], status)

    return work


def _of(reconcile: Callable[[Request], Awaitable[object]]) -> Work:
    async def work() -> None:
        await reconcile(KEY)

    return work


BENCHMARKS = (
    Benchmark(
        "reconcile.run",
        "a reconcile that does nothing, as a worker runs it",
        ready(run),
        against=("reconcile.call",),
    ),
    Benchmark("reconcile.call", "the call alone", ready(called)),
    Benchmark(
        "reconcile.memcached",
        "the Memcached operator's pass over an object that is as it should be",
        ready(memcached),
        against=("reconcile.memcached-naive",),
    ),
    Benchmark("reconcile.memcached-naive", "the same with dicts", ready(naive_memcached)),
)
