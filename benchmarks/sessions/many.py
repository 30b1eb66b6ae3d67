"""A session with very many objects: Deployments of others, finished objects, and changes of all objects."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import time
from typing import TYPE_CHECKING

from benchmarks.pod_store import last_deployments, store_deployments
from benchmarks.program import MEMCACHED, Setting
from benchmarks.sessions.plane import name_of
from benchmarks.sessions.pods import wait_shown
from benchmarks.sessions.process import (
    forget_peak,
    health_ports,
    peak_mb,
    resident_mb,
    started,
    wait_quiet,
    wait_ready,
)
from benchmarks.sessions.requests import Requests, all_writes, server_errors
from benchmarks.status_watch import MEMCACHEDS
from tests.support.api_objects import deployment_path, object_path
from tests.support.eventually import eventually
from tests.support.memcacheds import memcached_path
from tests.support.metrics import Samples, get

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.parts import Sizes
    from benchmarks.sessions.setup import Setup
    from tests.support.daemon import Daemon

PARTS = ("others", "done", "backlog")
# The workloads of part `others`: the operator, and programs that only cache the same Deployments.
WORKLOADS = (MEMCACHED, "deployments-metadata", "deployments")
# The number of rounds for steps of minutes: two for CPU, one for memory, which hardly varies.
ROUNDS, OTHERS_ROUNDS = 2, 1
SETTLE = 2.0
# An image other than the default, which changes every Deployment.
NEW_VERSION = "memcached:1.6.40-alpine"
# The kinds that the program watches.
WATCHED = (MEMCACHEDS, "/apis/apps/v1/deployments", "/api/v1/pods")
LAG = "operator_manager_event_loop_lag_seconds_bucket"
RESTARTS = "operator_manager_watch_restarts_total"
DEPTH = "workqueue_depth"
# Seconds between two changes, and between two checks of the remaining work.
PAUSE, LOOK = 0.5, 2.0
# The number of foreign writes after which the program's resource versions are too old.
FOREIGN_WRITES = 10


def within(count: int) -> float:
    return 90.0 + count / 50


def store_others(setup: Setup, count: int) -> None:
    store_deployments(setup.plane.etcd, count)
    wait_shown(setup.plane, last_deployments(count))


def others(setup: Setup, sizes: Sizes, workload: str, number: int) -> None:
    """Start the program among other operators' Deployments; when it is idle, record CPU time and memory."""
    with health_ports() as (address,):
        began = time.monotonic()
        setting = Setting(workload=workload, health_address=address)
        with started(setup.program, setup.plane, setting) as process:
            ready = wait_ready(process, address, within(sizes.others))
            wait_quiet(process, at_least=SETTLE, timeout=within(sizes.others))
            figures = {
                "sync_s": ready - began,
                "cpu_s": process.cpu_seconds(),
                "peak_mb": peak_mb(process),
                "mb": resident_mb(process),
            }
    setup.recorder.record("others", number, figures, group=workload)


def done(setup: Setup, number: int) -> None:
    """Start the program when all objects are finished, and wait until it has read them."""
    counted = Requests(setup.plane)
    with health_ports() as (address,):
        began = time.monotonic()
        with started(setup.program, setup.plane, Setting(health_address=address)) as process:
            ready = wait_ready(process, address, within(setup.objects))
            idle_since = wait_quiet(process, at_least=SETTLE, timeout=within(setup.objects))
            quiet, cpu = idle_since or time.monotonic(), process.cpu_seconds()
            requests = counted.so_far()
            written = all_writes(requests)
            figures = {
                "ready_s": ready - began,
                "quiet_s": quiet - began,
                "cpu_s": cpu,
                "mb": resident_mb(process),
                "peak_mb": peak_mb(process),
                "reads": sum(requests.values()) - written,
                "writes": written,
            }
    setup.recorder.record("done", number, figures, requests=requests)


def backlog(setup: Setup) -> None:
    """Measure a start with many objects, a relist after 410 Expired, and an upgrade that changes all."""
    setup.rewatch()
    with _observed(setup) as live:
        live.group("start")
    with _observed(setup) as live:
        wait_quiet(live.process, at_least=SETTLE, timeout=within(setup.objects))
        _expire(setup, live)
        live.group("relist")
        if not live.scrape().value(RESTARTS, reason="expired"):
            raise AssertionError("no watch met an expired history")
    with _observed(setup, f"--memcached-image={NEW_VERSION}") as live:
        live.group("rollout", until_empty=True)
    for index in (0, setup.objects // 2, setup.objects - 1):
        found = setup.plane.api.get(deployment_path("default", name_of(index)))
        image = found["spec"]["template"]["spec"]["containers"][0]["image"]
        if image != NEW_VERSION:
            raise AssertionError(f"Deployment {name_of(index)} still has {image}")


def _expire(setup: Setup, live: Live) -> None:
    """Make the API server lose its event history: restart it after writes that no watch receives."""
    for index in range(FOREIGN_WRITES):
        name = {"metadata": {"generateName": f"write-{index}-"}}
        setup.plane.api.create(object_path("v1", "default", "configmaps"), name)
    setup.unwatch()
    forget_peak(live.process)
    live.begin()
    setup.plane.restart("apiserver")
    # Until its caches are filled, the API server refuses all requests; the program must not wait for that.
    for path in WATCHED:
        eventually(functools.partial(_watch_once, setup, path), within=within(setup.objects))
    live.count()
    setup.rewatch()


def _watch_once(setup: Setup, path: str) -> None:
    """Open a watch, and close it; raises the API server's error while the server's cache is not filled."""
    version = setup.plane.api.get(path, limit="1")["metadata"]["resourceVersion"]
    query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "1"}
    setup.plane.api.request("GET", path, query=query)


@contextlib.contextmanager
def _observed(setup: Setup, *flags: str) -> Iterator[Live]:
    with health_ports(2) as (address, metrics):
        setting = Setting(health_address=address, metrics_address=metrics, flags=flags)
        began, counted = time.monotonic(), Requests(setup.plane)
        with started(setup.program, setup.plane, setting) as process:
            wait_ready(process, address, within(setup.objects))
            yield Live(setup, process, metrics, began, counted)


class Live:
    """A running program with a backlog of objects, and the measurement of changes to single objects."""

    def __init__(self, setup: Setup, process: Daemon, metrics: str, began: float, counted: Requests) -> None:
        self.process = process
        self._setup = setup
        self._metrics = metrics
        self._began = began
        self._counted = counted
        self._lags: dict[float, float] = {}

    def begin(self) -> None:
        """Begin to measure time and delays."""
        self._began = time.monotonic()
        self._lags = _lags(self.scrape())

    def count(self) -> None:
        """Begin to count requests."""
        self._counted = Requests(self._setup.plane)

    def group(self, group: str, *, until_empty: bool = False) -> None:
        """Change an object, wait until the program is idle, and record the figures of the group.

        With `until_empty`, change one object after the other until the program's queue is empty. The program
        may still send Events afterwards, at a limited rate.
        """
        delays: list[float] = []
        for turn in itertools.count():
            delays.append(self._change(turn))
            if not until_empty or (turn % round(LOOK / PAUSE) == 0 and not self._waiting()):
                break
            time.sleep(PAUSE)
        ended = None
        if not until_empty:
            ended = wait_quiet(self.process, at_least=SETTLE, timeout=within(self._setup.objects))
        ended = ended or time.monotonic()
        figures = {
            "seconds": ended - self._began,
            "first_ms": delays[0] * 1000,
            "worst_ms": max(delays) * 1000,
            "changes": len(delays),
            "peak_mb": peak_mb(self.process),
            "errors": server_errors(self._counted.so_far()),
        }
        lag = quantile_of(_lags(self.scrape()), self._lags, 0.99)
        if lag is not None:
            figures["lag_ms"] = lag * 1000
        self._setup.recorder.record("backlog", 1, figures, group=group)

    def scrape(self) -> Samples:
        """Return the program's current metrics."""
        return Samples(get(f"http://{self._metrics}/metrics", timeout=30)[1])

    def _change(self, turn: int) -> float:
        # Do not change the first objects, because the program may process its backlog in order.
        name = name_of((turn * 7919 + self._setup.objects // 2) % self._setup.objects)
        api, path = self._setup.plane.api, memcached_path("default", name)
        size = 7 - api.get(path)["spec"]["size"]
        began = time.monotonic()
        generation = api.patch(path, {"spec": {"size": size}})["metadata"]["generation"]
        wait = self._setup.watch.wait_generation
        return wait(name, generation, self.process, within(self._setup.objects)) - began

    def _waiting(self) -> float:
        return self.scrape().value(DEPTH, controller="memcached")


def quantile_of(now: dict[float, float], before: dict[float, float], share: float) -> float | None:
    """Return the upper bound of the bucket with the quantile `share` (0 to 1); None without observations.

    Only the observations between `before` and `now` count.
    """
    grown = [(bound, count - before.get(bound, 0.0)) for bound, count in sorted(now.items())]
    if not grown or not grown[-1][1]:
        return None
    least = math.ceil(grown[-1][1] * share)
    return next(bound for bound, count in grown if count >= least)


def _lags(samples: Samples) -> dict[float, float]:
    return {float(each.labels["le"]): each.value for each in samples.select(LAG)}
