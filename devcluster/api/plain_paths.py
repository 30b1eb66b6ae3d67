"""Paths without a resource: health, metrics, documents; and the answers for unknown paths."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from devcluster.access.rbac import Attributes
from devcluster.api.discovery import Discovery, answer_discovery
from devcluster.api.metrics import Histogram, Metrics, Series
from devcluster.errors import StatusError, qualified
from devcluster.http_call import ApiRequest, ApiResponse
from devcluster.kinds.registry import Registry
from devcluster.storage.store import Store

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_SHARED: Final = ("group", "version", "resource", "subresource", "scope", "component")


class MetricsPage:
    """The metrics page."""

    def __init__(self, metrics: Metrics, store: Store, registry: Registry) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Requests(metrics))
        self._registry.register(_Objects(store, registry))
        ProcessCollector(registry=self._registry)

    def write(self) -> bytes:
        """Return the metrics in the Prometheus text format."""
        return generate_latest(self._registry)


class _Requests(Collector):
    """Collector of request metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield the current request metrics."""
        metrics = self._metrics
        yield from _finished(list(metrics.series.values()))
        lasting = GaugeMetricFamily(
            "apiserver_longrunning_requests",
            "How many requests that last are open.",
            labels=("verb", *_SHARED),
        )
        for labels, count in metrics.open.items():
            lasting.add_metric((*labels, "apiserver"), count)
        yield lasting
        current = GaugeMetricFamily(
            "apiserver_current_inflight_requests",
            "How many requests were under way at a time, at most, in the last second.",
            labels=("request_kind",),
        )
        now = time.perf_counter()
        current.add_metric(("readOnly",), metrics.reading.most(now))
        current.add_metric(("mutating",), metrics.writing.most(now))
        yield current
        events = CounterMetricFamily(
            "apiserver_watch_events", "Events sent to watches.", labels=("group", "version", "resource")
        )
        for names, count in metrics.events.items():
            events.add_metric(names, count)
        yield events
        deprecated = GaugeMetricFamily(
            "apiserver_requested_deprecated_apis",
            "Deprecated APIs that were asked for.",
            labels=("group", "version", "resource", "subresource", "removed_release"),
        )
        for each in metrics.deprecated:
            deprecated.add_metric(each, 1)
        yield deprecated


class _Objects(Collector):
    """Collector of object counts."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """Yield the current object counts."""
        by_name = GaugeMetricFamily(
            "apiserver_storage_objects", "Objects that are stored.", labels=("resource",)
        )
        by_group = GaugeMetricFamily(
            "apiserver_resource_objects", "Objects that are stored.", labels=("group", "resource")
        )
        # Create-only kinds are not stored; Events have two groups, and are stored in one.
        stored = {each.stored for each in self._registry.all() if "list" in each.verbs}
        for group, plural in sorted(stored):
            count = self._store.count(group, plural)
            by_name.add_metric((qualified(group, plural),), count)
            by_group.add_metric((group, plural), count)
        yield by_name
        yield by_group


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
            if each.reads:
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
    """The answers to requests without a resource."""

    def __init__(self, registry: Registry, store: Store, metrics: Metrics) -> None:
        self._registry = registry
        self._store = store
        self._metrics = metrics
        self._metrics_page: MetricsPage | None = None
        self._documents = Documents(registry)

    def answer(self, request: ApiRequest) -> ApiResponse:
        """Return the document at a path, or a 404."""
        path = request.path.rstrip("/") or "/"
        first, _, rest = path.lstrip("/").partition("/")
        if first in _HEALTH:
            return _health(first, rest, verbose="verbose" in request.query)
        if path == "/metrics":
            return self._show_metrics()
        found = self._documents.answer(request)
        return _page_not_found() if found is None else found

    def _show_metrics(self) -> ApiResponse:
        from devcluster.api.plain_paths import CONTENT_TYPE, MetricsPage  # noqa: PLC0415 -- slow to load

        if self._metrics_page is None:
            self._metrics_page = MetricsPage(self._metrics, self._store, self._registry)
        return ApiResponse(content_type=CONTENT_TYPE, body=self._metrics_page.write())

    @staticmethod
    def unknown_page() -> ApiResponse:
        """Return the 404 that is a text page and no Status."""
        return _page_not_found()

    def unknown(self, target: Attributes) -> ApiResponse:
        """Return the 404 for an unknown resource."""
        known = any(each.group == target.group and not each.custom for each in self._registry.all())
        served = self._registry.find(target.group, target.version, target.resource)
        if not known and served is None:
            return _page_not_found()
        error = StatusError(404, "NotFound", "the server could not find the requested resource")
        error.empty_details = True
        return ApiResponse.failure(error)


def _health(check: str, rest: str, *, verbose: bool) -> ApiResponse:
    if rest and rest not in _CHECKS:
        return _page_not_found()
    if not verbose:
        return _text("ok")
    lines = [f"[+]{each} ok\n" for each in ([rest] if rest else _CHECKS)]
    return _text("".join(lines) + f"{check} check passed\n")


def _text(text: str, status: int = 200) -> ApiResponse:
    return ApiResponse(status=status, content_type="text/plain; charset=utf-8", body=text.encode())


def _page_not_found() -> ApiResponse:
    return _text("404 page not found\n", 404)


class Documents:
    """The discovery and OpenAPI documents."""

    def __init__(self, registry: Registry) -> None:
        self._discovery = Discovery(registry)
        self._registry = registry
        self._openapi: object = None

    def answer(self, request: ApiRequest) -> ApiResponse | None:
        """Return the discovery or OpenAPI document at the request's path, or None."""
        if not request.path.startswith("/openapi/"):
            return answer_discovery(self._discovery, request)
        from devcluster.api.openapi import OpenApi, answer_openapi  # noqa: PLC0415 -- loads the table of types

        if not isinstance(self._openapi, OpenApi):
            self._openapi = OpenApi(self._registry)
        return answer_openapi(self._openapi, request)
