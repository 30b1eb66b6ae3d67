"""The overview's figures. No names of objects are among them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

from prometheus_client import Counter, Histogram

from manager import clock
from manager.console.census import Census
from manager.controller import Controller
from manager.manager import Manager
from manager.runs import Run

WINDOW = 600.0
"""The last seconds whose reconciles are counted."""

_MOST = 5000
"""The most reconciles of a controller that are counted."""

_MINUTE, _BARS = 60.0, 60
_WIDTH, _HEIGHT = 120, 24
_TOO_MANY = "429"


Validities = Mapping[str, tuple[datetime, datetime]]
"""The validity (from, until) of each server's certificate, by the server's name."""


class _Ended(NamedTuple):
    at: float
    seconds: float
    failed: bool


class Rates:
    """Counts each controller's recent reconciles, and their durations.

    While the overview is open, each reconcile is noted as it ends; else they are read from the history.
    """

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._ended: dict[str, deque[_Ended]] = {}
        self._watched = 0
        self.heard = 0
        """Reconciles that have ended while the overview was open."""

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Note reconciles as they end while the context lasts, so that `of` is cheap."""
        self._watched += 1
        try:
            if self._watched == 1:
                for controller in self._manager.controllers:
                    self._ended[controller.name] = self._recorded(controller)
                self._manager.history.listeners.append(self._hear)
            yield
        finally:
            self._watched -= 1
            if not self._watched:
                self._manager.history.listeners.remove(self._hear)
                self._ended.clear()

    def _hear(self, run: Run) -> None:
        self.heard += 1
        if (ended := self._ended.get(run.controller)) is not None:
            ended.append(_of(run))

    def _recorded(self, controller: Controller) -> deque[_Ended]:
        since = asyncio.get_running_loop().time() - WINDOW
        found: deque[_Ended] = deque(maxlen=_MOST)
        for run in controller.runs.latest():
            if run.started < since or len(found) == _MOST:
                break
            found.appendleft(_of(run))
        return found

    def of(self, controller: Controller) -> dict[str, Any]:
        """The figures of one controller."""
        now = asyncio.get_running_loop().time()
        ended = self._ended.get(controller.name)
        ended = self._recorded(controller) if ended is None else ended
        runs = [each for each in ended if each.at > now - WINDOW]
        taken = sorted(each.seconds for each in runs)
        bars, failed = [0] * _BARS, [0] * _BARS
        for each in runs:
            bar = _BARS - 1 - min(int((now - each.at) * _BARS / WINDOW), _BARS - 1)
            bars[bar] += 1
            failed[bar] += each.failed
        return {
            "per_minute": sum(each.at > now - _MINUTE for each in runs),
            "runs": len(runs),
            "errors": sum(each.failed for each in runs),
            "p50": taken[len(taken) // 2] if taken else None,
            "p99": taken[int(len(taken) * 0.99)] if taken else None,
            "curve": _points(bars, max(bars)),
            "failed_curve": _points(failed, max(bars)) if any(failed) else "",
        }


def _of(run: Run) -> _Ended:
    return _Ended(run.started + run.seconds, run.seconds, run.outcome == "error")


def _points(bars: list[int], most: int) -> str:
    """The points of a curve in an SVG of `_WIDTH` by `_HEIGHT`."""
    step = _WIDTH / (_BARS - 1)
    return " ".join(
        f"{number * step:.1f},{_HEIGHT - 1 - bar * (_HEIGHT - 2) / (most or 1):.1f}"
        for number, bar in enumerate(bars)
    )


def overview(manager: Manager, rates: Rates, census: Census, certificates: Validities) -> dict[str, Any]:
    """All figures of the overview."""
    now = asyncio.get_running_loop().time()
    not_ready = census.not_ready()
    metrics = manager.metrics
    restarts: dict[str, dict[str, int]] = {}
    for kind, reason, count in _counts(metrics.watch_restarts, "kind", "reason"):
        restarts.setdefault(kind, {})[reason] = count
    codes: dict[str, int] = {}
    for code, _, count in _counts(metrics.rest_requests, "code", "method"):
        codes[code] = codes.get(code, 0) + count
    resources = {each.spec.gvk: each.spec.resource for each in manager.cache.informers}
    readiness = manager.health.readiness
    problems = [(name, said) for name in readiness.names if (said := readiness.problem(name)) is not None]
    return {
        "program": manager.program,
        "problems": problems,
        "leads": manager.leadership.deadline > now,
        "leader": manager.leader,
        "ranges": manager.ranges,
        "identity": manager.identity,
        "certificates": [
            {"name": name, "age": (clock.now() - since).total_seconds(), "left": (until - clock.now()).days}
            for name, (since, until) in certificates.items()
        ],
        "controllers": [
            {
                "controller": each,
                "resource": resources.get(each.primary) if each.primary else None,
                "not_ready": not_ready.get(each.name),
                **_queue(each),
                **rates.of(each),
            }
            for each in manager.controllers
        ],
        "caches": [
            {
                "spec": each.spec,
                "objects": len(each),
                "bytes": each.size,
                "changed": None if each.changed_at is None else now - each.changed_at,
                "problem": each.problem,
                "restarts": restarts.get(each.spec.resource, {}),
            }
            for each in manager.cache.informers
        ],
        "requests": sum(codes.values()),
        "throttled": codes.get(_TOO_MANY, 0),
        "unanswered": sum(count for code, count in codes.items() if code.startswith(("5", "<"))),
        "request_p50": _quantile(metrics.rest_latency, 0.5),
        "request_p99": _quantile(metrics.rest_latency, 0.99),
        "lag_p50": _quantile(metrics.loop_lag, 0.5),
        "lag_p99": _quantile(metrics.loop_lag, 0.99),
        "tasks": len(asyncio.all_tasks()),
        "webhooks": _webhooks(manager),
        "history": manager.history.bytes,
    }


def _queue(controller: Controller) -> dict[str, Any]:
    queue = controller.queue
    if queue is None:
        return {"paused": False, "waiting": 0, "delayed": 0, "running": 0, "oldest": 0.0, "failing": 0}
    return {
        "paused": queue.halted,
        "waiting": len(queue),
        "delayed": queue.delayed,
        "running": queue.running,
        "oldest": queue.oldest(),
        "failing": controller.failing,
    }


def _webhooks(manager: Manager) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for path, code, count in _counts(manager.metrics.webhook_requests, "webhook", "code"):
        row = found.setdefault(path, {"path": path, "reviews": 0, "failed": 0})
        row["reviews"] += count
        row["failed"] += 0 if code == "200" else count
    for path, row in found.items():
        row["p99"] = _quantile(manager.metrics.webhook_latency, 0.99, webhook=path)
    return [row for row in found.values() if row["reviews"]]


def _counts(counter: Counter, *names: str) -> Iterator[tuple[str, str, int]]:
    first, second = names
    for family in counter.collect():
        for sample in family.samples:
            yield sample.labels[first], sample.labels[second], int(sample.value)


def _quantile(histogram: Histogram, part: float, *, webhook: str | None = None) -> float | None:
    """A quantile's upper bound in seconds; None without observations."""
    buckets: dict[float, float] = {}
    for family in histogram.collect():
        for sample in family.samples:
            if sample.name.endswith("_bucket") and webhook in (None, sample.labels.get("webhook")):
                bound = float(sample.labels["le"])
                buckets[bound] = buckets.get(bound, 0.0) + sample.value
    total = buckets.get(float("inf"), 0.0)
    return next((bound for bound, count in sorted(buckets.items()) if total and count >= total * part), None)
