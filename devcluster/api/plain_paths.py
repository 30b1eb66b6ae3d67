"""Handler of paths without a resource: health, metrics, discovery, OpenAPI, and a 404 for unknown paths."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from devcluster.access.rbac import Attributes
from devcluster.api.discovery import Discovery, page_not_found
from devcluster.api.metrics import Histogram, Metrics, Series
from devcluster.api.openapi import OpenApi
from devcluster.errors import StatusError, qualified
from devcluster.http_call import ApiRequest, ApiResponse
from devcluster.kinds.registry import Registry
from devcluster.storage.store import Store

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_SHARED: Final = ("group", "version", "resource", "subresource", "scope", "component")


class _Collector(Collector):
    """Prometheus collector of metrics about requests and stored objects."""

    def __init__(self, metrics: Metrics, store: Store, registry: Registry) -> None:
        self._metrics = metrics
        self._store = store
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        metrics = self._metrics
        yield from _finished(list(metrics.series.values()))
        yield _gauge(
            "apiserver_longrunning_requests",
            "Open long-running requests.",
            ("verb", *_SHARED),
            (((*labels, "apiserver"), count) for labels, count in metrics.open.items()),
        )
        now = time.perf_counter()
        yield _gauge(
            "apiserver_current_inflight_requests",
            "The highest number of concurrent requests in the last second.",
            ("request_kind",),
            ((("readOnly",), metrics.reading.most(now)), (("mutating",), metrics.writing.most(now))),
        )
        events = CounterMetricFamily(
            "apiserver_watch_events", "Events sent to watches.", labels=("group", "version", "resource")
        )
        for names, count in metrics.events.items():
            events.add_metric(names, count)
        yield events
        yield _gauge(
            "apiserver_requested_deprecated_apis",
            "Requested deprecated APIs.",
            ("group", "version", "resource", "subresource", "removed_release"),
            ((each, 1) for each in metrics.deprecated),
        )
        # Create-only kinds are not stored; Events have two groups, and are stored in one.
        stored = sorted({each.stored for each in self._registry.all() if "list" in each.verbs})
        counts = [(each, self._store.count(*each)) for each in stored]
        text = "Objects that are stored."
        by_name = (((qualified(*each),), count) for each, count in counts)
        yield _gauge("apiserver_storage_objects", text, ("resource",), by_name)
        yield _gauge("apiserver_resource_objects", text, ("group", "resource"), counts)


def _gauge(
    name: str, text: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for each, value in values:
        family.add_metric(each, value)
    return family


def _finished(known: list[Series]) -> Iterator[Metric]:
    total = CounterMetricFamily(
        "apiserver_request", "Requests that were answered.", labels=("verb", "dry_run", *_SHARED, "code")
    )
    seconds = HistogramMetricFamily(
        "apiserver_request_duration_seconds",
        "How long requests took, in seconds.",
        labels=("verb", "dry_run", *_SHARED),
    )
    sizes = HistogramMetricFamily(
        "apiserver_response_sizes", "How large answers to reads were, in bytes.", labels=("verb", *_SHARED)
    )
    for each in known:
        shared = (each.group, each.version, each.resource, each.subresource, each.scope, each.component)
        for code, count in each.codes.items():
            total.add_metric((each.verb, each.dry_run, *shared, str(code)), count)
        if each.codes:
            _add(seconds, (each.verb, each.dry_run, *shared), each.seconds)
        if any(each.sizes.counts):  # the verbs of reads only
            _add(sizes, (each.verb, *shared), each.sizes)
    yield total
    yield seconds
    yield sizes


def _add(family: HistogramMetricFamily, labels: tuple[str, ...], values: Histogram) -> None:
    bounds = [*(f"{bound:g}" for bound in values.bounds), "+Inf"]
    family.add_metric(
        labels, list(zip(bounds, itertools.accumulate(values.counts), strict=True)), values.total
    )


_HEALTH = frozenset({"healthz", "livez", "readyz"})
_CHECKS = ("ping", "log", "etcd")


class PlainPaths:
    """Handler of requests without a resource."""

    def __init__(self, registry: Registry, store: Store, metrics: Metrics) -> None:
        self._registry = registry
        self._discovery = Discovery(registry)
        self._openapi: Any = None
        self._collectors = CollectorRegistry()
        self._collectors.register(_Collector(metrics, store, registry))
        ProcessCollector(registry=self._collectors)

    async def answer(self, request: ApiRequest) -> ApiResponse:
        """Return the document at a path, or a 404."""
        path = request.path.rstrip("/") or "/"
        first, _, rest = path.lstrip("/").partition("/")
        if first in _HEALTH:
            return _health(first, rest, verbose="verbose" in request.query)
        if path == "/metrics":
            return ApiResponse(content_type=CONTENT_TYPE, body=generate_latest(self._collectors))
        if not request.path.startswith("/openapi/"):
            return await self._discovery.answer(request) or page_not_found()
        if self._openapi is None:
            self._openapi = OpenApi(self._registry)
        return await self._openapi.answer(request) or page_not_found()

    def unknown(self, target: Attributes) -> ApiResponse:
        """Return the 404 for an unknown resource."""
        known = any(each.group == target.group and not each.custom for each in self._registry.all())
        served = self._registry.find(target.group, target.version, target.resource)
        if not known and served is None:
            return page_not_found()
        text = "the server could not find the requested resource"
        return ApiResponse.failure(StatusError(404, "NotFound", text, details={}))


def _health(check: str, rest: str, *, verbose: bool) -> ApiResponse:
    if rest and rest not in _CHECKS:
        return page_not_found()
    if not verbose:
        return _text("ok")
    lines = [f"[+]{each} ok\n" for each in ([rest] if rest else _CHECKS)]
    return _text("".join(lines) + f"{check} check passed\n")


def _text(text: str) -> ApiResponse:
    return ApiResponse(content_type="text/plain; charset=utf-8", body=text.encode())
