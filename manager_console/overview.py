"""The overview's figures. The names of objects are not among them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from itertools import islice
from typing import Any, NamedTuple

from prometheus_client import Counter as Metric
from prometheus_client import Histogram

from manager.api import ObjectKey
from manager.cache import CacheEvent, Informer
from manager.controller import Controller
from manager.process.manager import Manager
from manager.util import clock
from manager.util.loop import in_thread
from manager_console.search import readiness_of, sources

WINDOW = 600.0
"""The last seconds whose reconciles are counted."""

_MOST = 5000
"""The most reconciles of a controller that are counted."""

_AT_ONCE = 0.03
"""Seconds in which objects of one kind are counted, for each look; one takes about 30 microseconds."""

_KEPT = 10.0
"""Seconds after a look for which the next one counts changed objects only."""

_MINUTE, _BARS = 60.0, 60
_WIDTH, _HEIGHT = 120, 24
_TOO_MANY = "429"


class _Count(NamedTuple):
    informer: Informer
    pending: dict[ObjectKey, None]
    """Objects that are to be judged, as they are new or have changed."""

    bad: set[ObjectKey]

    def hear(self, event: CacheEvent) -> None:
        self.pending[event.key] = None

    def look(self) -> tuple[int, bool]:
        ends = time.perf_counter() + _AT_ONCE
        while self.pending and time.perf_counter() < ends:
            key, _ = self.pending.popitem()
            record = self.informer.get(key)
            is_bad = record is not None and readiness_of(self.informer, record).ready is False
            (self.bad.add if is_bad else self.bad.discard)(key)
        return len(self.bad), not self.pending


class ReadinessCount:
    """A count of each controller's objects that report that they are not ready."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._counts: dict[str, _Count] = {}
        self._subscriptions = ExitStack()
        self._end: asyncio.TimerHandle | None = None

    def not_ready(self) -> dict[str, tuple[int, bool]]:
        """Return by controller how many objects are not ready so far, and whether all have been counted."""
        if self._end is not None:
            self._end.cancel()
        for controller, informer in sources(self._manager) if self._end is None else ():
            pending = dict.fromkeys(record.key for record in informer.list())
            count = self._counts[controller.name] = _Count(informer, pending, set())
            self._subscriptions.callback(informer.subscribe(count.hear, replay=False))
        self._end = asyncio.get_running_loop().call_later(_KEPT, self._forget)
        return {name: count.look() for name, count in self._counts.items()}

    def _forget(self) -> None:
        self._end = None
        self._counts.clear()
        self._subscriptions.close()


class _Ended(NamedTuple):
    at: float
    seconds: float
    failed: bool


class Rates:
    """Counts of each controller's recent reconciles, and their durations."""

    def __init__(self) -> None:
        self._recent: dict[str, dict[str, _Ended]] = {}
        """By controller and the record's ID."""

    def _read(self, controller: Controller) -> Collection[_Ended]:
        """Read the records that were added since the last look, which are in the order of their ends."""
        since = asyncio.get_running_loop().time() - WINDOW
        known = self._recent.get(controller.name, {})
        last = max((each.at for each in known.values()), default=since)
        for record in islice(controller.runs.latest(), _MOST):
            at = record.started + record.seconds
            if at < last:
                break
            known[record.id] = _Ended(at, record.seconds, record.outcome == "error")
        recent = sorted((each for each in known.items() if each[1].at >= since), key=lambda each: each[1].at)
        self._recent[controller.name] = dict(recent[-_MOST:])
        return self._recent[controller.name].values()

    def of(self, controller: Controller) -> dict[str, Any]:
        """Return the figures of one controller."""
        now = asyncio.get_running_loop().time()
        runs = self._read(controller)
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


def _points(bars: list[int], most: int) -> str:
    step = _WIDTH / (_BARS - 1)
    return " ".join(
        f"{number * step:.1f},{_HEIGHT - 1 - bar * (_HEIGHT - 2) / (most or 1):.1f}"
        for number, bar in enumerate(bars)
    )


async def overview(manager: Manager, rates: Rates, readiness_count: ReadinessCount) -> dict[str, Any]:
    """Return what the overview shows: the manager's own objects, and figures made of its metrics."""
    not_ready, metrics, readiness = (
        readiness_count.not_ready(),
        manager.metrics,
        manager.health.readiness,
    )
    certificates = [(name, await in_thread(each.valid)) for name, each in manager.certificates.items()]
    resources = {each.spec.gvk: each.spec.resource for each in manager.cache.informers}
    restarts: dict[str, dict[str, int]] = {}
    for kind, reason, count in _counts(metrics.watch_restarts, "kind", "reason"):
        restarts.setdefault(kind, {})[reason] = count
    codes, reviews = Counter[str](), dict[str, Counter[str]]()
    for code, _, count in _counts(metrics.rest_requests, "code", "method"):
        codes[code] += count
    for path, code, count in _counts(metrics.webhook_requests, "webhook", "code"):
        reviews.setdefault(path, Counter())[code] += count
    return {
        "manager": manager,
        "now": asyncio.get_running_loop().time(),
        "problems": [
            (name, said) for name in readiness.names if (said := readiness.problem(name)) is not None
        ],
        "certificates": [
            (name, (clock.now() - valid[0]).total_seconds(), (valid[1] - clock.now()).days)
            for name, valid in certificates
            if valid is not None
        ],
        "controllers": [
            (
                each,
                resources.get(each.primary) if each.primary else None,
                not_ready.get(each.name),
                rates.of(each),
            )
            for each in manager.controllers
        ],
        "restarts": restarts,
        "requests": codes.total(),
        "throttled": codes[_TOO_MANY],
        "unanswered": sum(count for code, count in codes.items() if code.startswith(("5", "<"))),
        "quantile": _quantile,
        "tasks": len(asyncio.all_tasks()),
        "webhooks": {path: each for path, each in reviews.items() if each.total()},
    }


def _counts(counter: Metric, *names: str) -> Iterator[tuple[str, str, int]]:
    first, second = names
    for family in counter.collect():
        for sample in family.samples:
            yield sample.labels[first], sample.labels[second], int(sample.value)


def _quantile(histogram: Histogram, part: float, *, webhook: str | None = None) -> float | None:
    """Return a quantile's upper bound in seconds; None without observations."""
    buckets: dict[float, float] = {}
    for family in histogram.collect():
        for sample in family.samples:
            if sample.name.endswith("_bucket") and webhook in (None, sample.labels.get("webhook")):
                bound = float(sample.labels["le"])
                buckets[bound] = buckets.get(bound, 0.0) + sample.value
    total = buckets.get(float("inf"), 0.0)
    return next((bound for bound, count in sorted(buckets.items()) if total and count >= total * part), None)
