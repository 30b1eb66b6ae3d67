"""Metrics and log lines, which each reconcile and each request produces."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import time
from bisect import bisect_left
from typing import TYPE_CHECKING

from benchmarks.micro.benchmark import Benchmark, ready
from manager.controller import Request
from manager.controller.controller import ControllerMetrics
from manager.controller.queue import QueueMetrics
from manager.kube.transport import RequestMetrics
from manager.telemetry.logs import configured, get_logger
from manager.telemetry.metrics import REQUEST_BUCKETS, Metrics
from manager.telemetry.runs import History, ReconcileRecord, Trigger
from manager.util import clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Literal

    from benchmarks.micro.benchmark import Work

LINES = 1_000
FLUSH_TIMEOUT = 60.0


def request_recorded() -> Work:
    record = RequestMetrics(Metrics(), "server").record
    return lambda: record("PATCH", 200, 0.012)


def naive_request_recorded() -> Work:
    """Record a request with a counter and a histogram in plain Python, without locks."""
    counters: dict[tuple[str, int], int] = {}
    buckets = [0] * (len(REQUEST_BUCKETS) + 1)
    total = [0.0]

    def record(method: str, code: int, seconds: float) -> None:
        counters[method, code] = counters.get((method, code), 0) + 1
        buckets[bisect_left(REQUEST_BUCKETS, seconds)] += 1
        total[0] += seconds

    return lambda: record("PATCH", 200, 0.012)


def reconcile_recorded() -> Work:
    """Record a successful reconcile, as the queue and the runner do."""
    metrics = Metrics()
    queue = QueueMetrics(metrics, "bench")
    controller = ControllerMetrics(metrics, "bench", workers=1, active=lambda: 0.0)
    runs = History().of("bench")
    key = Request("default", "sample")
    triggers = (Trigger("event", 0.0, "MODIFIED", "for", "Memcached", *key, 41, 42),)

    def work() -> None:
        queue.added()
        queue.waited(0.003)
        run = ReconcileRecord("bench", *key, "8000000000000000", 0.003, 0.003, 0, 0, triggers, 1)
        run.seconds, run.outcome = 0.012, "success"
        controller.count(run)
        runs.add(run)
        queue.worked(0.012)

    return work


@contextlib.asynccontextmanager
async def lines(level: Literal["info", "warn"]) -> AsyncIterator[Work]:
    """Log lines of level info, with the fields of a reconcile; with `warn` they are discarded."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        with configured(level=level, log_format="json", fd=null) as writer:
            about = {"controller": "memcached", "namespace": "default", "name": "sample"}
            log = get_logger("reconcile").bind(**about)

            async def work() -> None:
                for number in range(LINES):
                    log.info("scaled", before=number, after=3)
                await asyncio.to_thread(writer.flush, FLUSH_TIMEOUT)

            yield work
    finally:
        os.close(null)


class JsonFormatter(logging.Formatter):
    """The usual few lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as JSON."""
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {"ts": f"{when}.{record.msecs:03.0f}Z", "level": record.levelname, "logger": record.name}
        return json.dumps({**fields, "msg": record.getMessage(), **getattr(record, "fields", {})})


@contextlib.asynccontextmanager
async def standard_lines(level: int) -> AsyncIterator[Work]:
    """Log the same with the standard library, unbuffered."""
    log = logging.Logger("reconcile", level)  # noqa: LOG001 -- not one of the process's own
    with contextlib.closing(open(os.devnull, "w")) as null:  # noqa: ASYNC230, PTH123 -- takes no time
        handler = logging.StreamHandler(null)
        handler.setFormatter(JsonFormatter())
        log.addHandler(handler)
        about = {"controller": "memcached", "namespace": "default", "name": "sample"}

        def work() -> None:
            for number in range(LINES):
                log.info("scaled", extra={"fields": {**about, "before": number, "after": 3}})

        yield work


def bound() -> Work:
    """Create the logger of a reconcile."""
    log = get_logger("controller").bind(controller="memcached")
    rng = random.Random(1)
    return lambda: log.bind(namespace="default", name="sample", reconcile_id=f"{rng.getrandbits(64):016x}")


def now() -> Work:
    return clock.now


BENCHMARKS = (
    Benchmark(
        "record.request",
        "a request's count and duration",
        ready(request_recorded),
        against=("record.request-naive",),
    ),
    Benchmark(
        "record.request-naive", "the same in plain Python, without locks", ready(naive_request_recorded)
    ),
    Benchmark(
        "record.reconcile",
        "all that is recorded of a reconcile that goes well",
        ready(reconcile_recorded),
        against=("record.request",),
    ),
    Benchmark(
        "record.line",
        "a log line in JSON, written by the thread for it",
        lambda: lines("info"),
        units=LINES,
        against=("record.line-logging",),
    ),
    Benchmark(
        "record.line-logging",
        "the same with the standard library",
        lambda: standard_lines(logging.INFO),
        units=LINES,
    ),
    Benchmark(
        "record.line-below",
        "a log line below the level",
        lambda: lines("warn"),
        units=LINES,
        against=("record.line-below-logging",),
    ),
    Benchmark(
        "record.line-below-logging",
        "the same with the standard library",
        lambda: standard_lines(logging.WARNING),
        units=LINES,
    ),
    Benchmark("record.logger", "a reconcile's logger", ready(bound), against=("record.line",)),
    Benchmark("record.clock", "the wall-clock time", ready(now), against=("record.request-naive",)),
)
