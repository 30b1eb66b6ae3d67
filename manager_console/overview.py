"""The figures of the overview page, without names of objects, and the search for objects."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from operator import itemgetter
from typing import Any

import orjson
from prometheus_client import Counter as Metric
from prometheus_client import Histogram

from manager.api import ObjectKey
from manager.cache import CacheEvent, Informer, Record
from manager.controller import Controller
from manager.process.manager import Manager
from manager.util import clock
from manager.util.loop import Portions, in_thread
from manager_console.diagnosis.readiness import SILENT, Verdict, judge

STATES = {
    "": "in any state",
    "not-ready": "not ready",
    "failing": "failing",
    "waiting": "waiting for a worker or for a retry",
    "running": "being reconciled",
    "slow": "slow: its last reconcile took longer than",
    "stuck": "failing or running for longer than",
}

MOST_FOUND = 200
_SMALL = 64  # the cost of checking a name or a queue, in bytes of JSON with the same cost

WINDOW = 600.0  # reconciles in so many last seconds are counted
_MOST = 5000  # the maximum number of counted reconciles of a controller
_AT_ONCE = 0.03  # seconds per page for counting objects of one kind; each object takes about 30 microseconds
_KEPT = 10.0  # seconds after a page in which the next page counts only changed objects
_MINUTE, _BARS = 60.0, 60


async def search(
    manager: Manager, resources: Collection[str], query: Mapping[str, str], seconds: float = 0.0
) -> tuple[list[dict[str, Any]], bool]:
    """Return the rows of the found objects, by controller and key, and whether further ones were left out.

    `query` may contain `kind` (a resource), `namespace`, `name` (a part of the name), and `state` (one of
    `STATES`). Empty values match everything. `seconds` is the minimum duration for states with `longer than`.
    """
    found, portions = list[dict[str, Any]](), Portions()
    kind, namespace, name, state = (query.get(each, "") for each in ("kind", "namespace", "name", "state"))
    for controller, informer in sources(manager):
        spec = informer.spec
        if spec.resource not in resources or kind not in ("", spec.resource):
            continue
        for record in informer.list(namespace=namespace):
            await portions.begin(_SMALL)
            if name.lower() not in record.key.name.lower():
                continue
            doing, since, states = _activity(controller, record.key, seconds)
            if state in states and not states[state]:
                continue
            await portions.begin(len(record.raw))
            verdict = _readiness_of(informer, record)
            if state == "not-ready" and verdict.ready is not False:
                continue
            if len(found) == MOST_FOUND:
                return found, True
            row = {"resource": spec.resource, "kind": spec.gvk.kind, "key": record.key, "verdict": verdict}
            found.append({**row, "controller": controller.name, "doing": doing, "since": since})
    return found, False


def _activity(
    controller: Controller, key: ObjectKey, seconds: float
) -> tuple[str, float | None, dict[str, bool]]:
    """Return what a controller does with an object, for how many seconds, and which page filters match it."""
    last, waiting = controller.runs.last(key), controller.waiting(key)
    doing, began = "", None
    if (running := controller.running(key)) is not None:
        doing, began = "running", running.started
    elif last is not None and last.outcome == "error":
        doing, began = "failing", last.started
        for run in reversed(controller.runs.of(key)):
            if run.outcome != "error":
                break
            began = run.started
    elif waiting is not None:
        doing, began = "waiting", waiting.since if waiting.due is None else None
    since = None if began is None else asyncio.get_running_loop().time() - began
    return (
        doing,
        since,
        {
            "failing": doing == "failing",
            "running": doing == "running",
            "waiting": waiting is not None,
            "slow": last is not None and last.seconds > seconds,
            "stuck": doing in ("failing", "running") and (since or 0.0) > seconds,
        },
    )


def kinds(manager: Manager) -> list[str]:
    """Return the resources that can be searched, such as `pets.petstore.example.com`."""
    return list(dict.fromkeys(informer.spec.resource for _, informer in sources(manager)))


def sources(manager: Manager) -> Iterator[tuple[Controller, Informer]]:
    """Yield each controller with the cache of its kind."""
    for controller in manager.controllers:
        for informer in manager.cache.informers:
            if informer.spec.gvk == controller.primary and not informer.cuts_others:
                yield controller, informer
                break


def _readiness_of(informer: Informer, record: Record) -> Verdict:
    try:
        return judge({"kind": informer.spec.gvk.kind, **orjson.loads(record.raw)})
    except ValueError:  # nested deeper than the parser allows
        return SILENT


class Figures:
    """The figures of one controller: its recent reconciles, and its objects that are not ready.

    Reconciles are copied, because the history drops some of them early. Objects are counted in portions.
    While pages ask for the number, only changed objects are counted again.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._runs: dict[str, tuple[float, float, bool]] = {}
        """By the record's ID, in the order of their ends: the end, seconds, and whether it failed."""
        self._pending: dict[ObjectKey, None] = {}
        """Objects that are to be judged, as they are new or have changed."""
        self._bad = set[ObjectKey]()
        self._unsubscribe: Callable[[], None] | None = None
        self._end: asyncio.TimerHandle | None = None

    def not_ready(self, informer: Informer) -> tuple[int, bool]:
        """Return the number of objects found not ready so far, and whether all objects have been checked."""
        if self._end is not None:
            self._end.cancel()
        if self._unsubscribe is None:
            self._pending = dict.fromkeys(record.key for record in informer.list())
            self._unsubscribe = informer.subscribe(self._hear, replay=False)
        self._end = asyncio.get_running_loop().call_later(_KEPT, self._forget)
        ends = time.perf_counter() + _AT_ONCE
        while self._pending and time.perf_counter() < ends:
            key, _ = self._pending.popitem()
            record = informer.get(key)
            is_bad = record is not None and _readiness_of(informer, record).ready is False
            (self._bad.add if is_bad else self._bad.discard)(key)
        return len(self._bad), not self._pending

    def _hear(self, event: CacheEvent) -> None:
        self._pending[event.key] = None

    def _forget(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._unsubscribe, self._pending = None, {}
        self._bad.clear()

    def rates(self) -> dict[str, Any]:
        """Return the numbers of recent reconciles and of failures, and quantiles of the durations."""
        now = asyncio.get_running_loop().time()
        self._read(now - WINDOW)
        runs = self._runs.values()
        taken = sorted(seconds for _, seconds, _ in runs)
        bars, failed = [0] * _BARS, [0] * _BARS
        for at, _, is_failure in runs:
            bar = _BARS - 1 - min(int((now - at) * _BARS / WINDOW), _BARS - 1)
            bars[bar] += 1
            failed[bar] += is_failure
        return {
            "per_minute": sum(at > now - _MINUTE for at, _, _ in runs),
            "runs": len(runs),
            "errors": sum(failed),
            "p50": taken[len(taken) // 2] if taken else None,
            "p99": taken[int(len(taken) * 0.99)] if taken else None,
            "bars": bars,
            "failed": failed,
        }

    def _read(self, since: float) -> None:
        last = max((at for at, _, _ in self._runs.values()), default=since)
        for record in islice(self._controller.runs.latest(), _MOST):
            at = record.started + record.seconds
            if at < last:
                break
            self._runs[record.id] = at, record.seconds, record.outcome == "error"
        recent = sorted((each for each in self._runs.items() if each[1][0] >= since), key=itemgetter(1))
        self._runs = dict(recent[-_MOST:])


class Overview:
    """The data of the overview page: the manager's components, and figures from its metrics."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._figures: dict[str, Figures] = {}

    async def look(self) -> dict[str, Any]:
        """Return the current data of the page by name."""
        now, manager = asyncio.get_running_loop().time(), self._manager
        metrics, readiness = manager.metrics, manager.health.readiness
        informers = {controller.name: informer for controller, informer in sources(manager)}
        resources = {each.spec.gvk: each.spec.resource for each in manager.cache.informers}
        controllers = list[dict[str, Any]]()
        for each in manager.controllers:
            figures = self._figures.setdefault(each.name, Figures(each))
            informer = informers.get(each.name)
            controllers.append(
                {
                    "it": each,
                    "resource": each.primary and resources.get(each.primary),
                    "not_ready": None if informer is None else figures.not_ready(informer),
                    "rates": figures.rates(),
                }
            )
        restarts, reviews, codes = dict[str, Counter[str]](), dict[str, Counter[str]](), Counter[str]()
        for kind, reason, count in _counts(metrics.watch_restarts, "kind", "reason"):
            restarts.setdefault(kind, Counter())[reason] = count
        for path, code, count in _counts(metrics.webhook_requests, "webhook", "code"):
            reviews.setdefault(path, Counter())[code] += count
        for code, _, count in _counts(metrics.rest_requests, "code", "method"):
            codes[code] += count
        certificates = [(name, await in_thread(each.valid)) for name, each in manager.certificates.items()]
        return {
            "manager": manager,
            "shards": manager.coordinator.owned,
            "leader": manager.coordinator.leader,
            "leads": manager.leadership.deadline > now,
            "now": now,
            "problems": [
                (name, said) for name in readiness.names if (said := readiness.problem(name)) is not None
            ],
            "certificates": [
                (name, (clock.now() - valid[0]).total_seconds(), (valid[1] - clock.now()).days)
                for name, valid in certificates
                if valid is not None
            ],
            "controllers": controllers,
            "restarts": restarts,
            "requests": codes.total(),
            "throttled": codes["429"],
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
    buckets = Counter[float]()
    for family in histogram.collect():
        for sample in family.samples:
            if sample.name.endswith("_bucket") and webhook in (None, sample.labels.get("webhook")):
                buckets[float(sample.labels["le"])] += int(sample.value)
    total = buckets[float("inf")]
    return next((bound for bound, count in sorted(buckets.items()) if total and count >= total * part), None)
