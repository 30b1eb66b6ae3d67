"""Every metric family of the process, with names known from controller-runtime's dashboards and alerts.

One `Metrics` belongs to one manager and is passed to all code that records. Such code binds the labels of a
family once (`metrics.reconcile_total.labels("memcached", "success")`) and stores the bound child, so that
each recording is only an addition.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
"""Upper bounds in seconds for the duration of a reconcile."""

QUEUE_BUCKETS = tuple(float(f"1e{exponent}") for exponent in range(-8, 4))
"""Upper bounds in seconds for waiting in a queue and for the work: 10 ns to 1,000 s, in powers of ten."""

REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Upper bounds in seconds for one request to the API server."""

LATENCY_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Upper bounds in seconds for delays inside the process."""

UNOWNED_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0)
"""Upper bounds in seconds for the time in which a lease has no holder."""


class Observe(Protocol):
    """A function that records a value with an exemplar."""

    def __call__(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        """Record the value."""


_FAMILIES = """
controller_runtime_reconcile_total{controller,result}: Reconciles by result: success, error, requeue(_after).
controller_runtime_reconcile_errors_total{controller}: Reconciles that failed.
controller_runtime_terminal_reconcile_errors_total{controller}: Reconciles that failed and are not retried.
controller_runtime_reconcile_panics_total{controller}: Reconciles that failed by a fault in the program.
controller_runtime_reconcile_timeouts_total{controller}: Reconciles that the timeout has stopped.
controller_runtime_reconcile_time_seconds{controller}: Time taken by one reconcile.
controller_runtime_max_concurrent_reconciles{controller}: How many reconciles the controller may run at once.
controller_runtime_active_workers{controller}: How many reconciles are running.
operator_manager_failing_objects{controller}: Objects whose latest reconcile failed.
operator_manager_unstable_children{controller,reason}: Children changed too often; changes now wait.
operator_manager_rollouts_waiting{controller}: Objects whose pods wait for max_concurrent_rollouts others.
operator_manager_reconciles_skipped_total{controller}: Reconciles skipped: own writes were the only cause.
operator_manager_event_to_reconcile_seconds{controller}: Time from a watch event to its reconcile's start.
workqueue_depth{name,controller,priority}: Keys waiting in the queue, per priority.
workqueue_adds_total{name,controller}: Keys added to the queue.
workqueue_retries_total{name,controller}: Keys added again after a failure.
workqueue_queue_duration_seconds{name,controller}: How long a key waits in the queue before it is worked on.
workqueue_work_duration_seconds{name,controller}: How long working on a key takes.
workqueue_unfinished_work_seconds{name,controller}: Sum of the ages of the work in progress.
workqueue_longest_running_processor_seconds{name,controller}: Age of the oldest work in progress.
operator_manager_queue_oldest_key_seconds{name,controller}: Age of the key that has been ready the longest.
operator_manager_queue_next_retry_seconds{name,controller}: Time until the next delayed key; 0 for none.
controller_runtime_webhook_requests_total{webhook,code}: Reviews, by path of the webhook and HTTP status.
controller_runtime_webhook_latency_seconds{webhook}: Time from the head of a review to its answer.
controller_runtime_webhook_requests_in_flight{webhook}: Reviews that are being answered.
controller_runtime_webhook_panics_total: Admission functions that failed unexpectedly.
controller_runtime_conversion_webhook_panics_total: Conversion functions that failed unexpectedly.
rest_client_requests_total{code,method,host}: Requests by status code, method and host; <error> for no answer.
rest_client_request_duration_seconds{verb,host}: Time from sending a request to its answer, retries apart.
leader_election_master_status{name}: 1 while this process holds the lease of that name, else 0.
operator_manager_shards_wanted: Shards that this process should own; 0 without --shards.
operator_manager_lease_handovers_total{direction}: Leases that this process has taken, or given back.
operator_manager_lease_unowned_seconds: Time without a holder of a lease that this process took.
operator_manager_moved_keys_total{controller,direction}: Objects of shards that were taken or given back.
operator_manager_cache_objects{kind,projection}: Objects held in the cache.
operator_manager_cache_bytes{kind,projection}: Bytes of JSON held in the cache.
operator_manager_definition_differences{definition}: Differences between the installed CRD and the program's.
operator_manager_watch_restarts_total{kind,reason}: Watches that ended and were opened again, by reason.
operator_manager_cache_failures_total{kind,part}: Cached objects for which a function or decoding failed.
operator_manager_events_total{result}: Kubernetes Events by result.
operator_manager_build_info{program,version}: 1, with the program's name and version.
operator_manager_event_loop_tasks: Tasks of the event loop that are not done.
operator_manager_event_loop_lag_seconds: Delay of a timer of the event loop.
"""
_FAMILY = re.compile(r"^(\w+)(?:\{(.*)\})?: (.*)$", re.MULTILINE)
"""Matches the name, the labels and the text of a family."""


def counting(counter: Counter) -> Callable[[], None]:
    """Return a function that increments a series like `inc`, but four times as fast.

    Use it only in the event loop's thread: unlike `inc`, it has no lock against other threads.
    """
    value = counter._value  # noqa: SLF001 - the library's public methods are slow

    def count() -> None:
        value._value += 1.0  # noqa: SLF001 - as above

    return count


def observing(histogram: Histogram) -> Observe:
    """Return a function that records a value in a series like `observe`, but five times as fast.

    Use it only in the event loop's thread (see `counting`).
    """
    bounds, buckets, total = histogram._upper_bounds, histogram._buckets, histogram._sum  # noqa: SLF001 - as above

    def observe(amount: float, exemplar: dict[str, str] | None = None) -> None:
        if exemplar is not None:
            histogram.observe(amount, exemplar)
            return
        total._value += amount  # noqa: SLF001 - as above
        buckets[bisect_left(bounds, amount)]._value += 1.0  # noqa: SLF001 - as above

    return observe


class Metrics:
    """All metric families, in one registry.

    The number of series is bounded: no label contains an object's name or namespace.
    """

    def __init__(self) -> None:  # noqa: PLR0915 - one statement for each metric
        # A process-wide switch of prometheus_client; a `_created` series for each counter and histogram would
        # double the cost of counters in the time series database.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # no type hints in the library
        self.registry = CollectorRegistry()
        self.process_registry = CollectorRegistry()
        """The metrics of the process; separate, because collecting them reads files, which blocks."""
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.process_registry)
        about = {
            name: (list(filter(None, labels.split(","))), text)
            for name, labels, text in _FAMILY.findall(_FAMILIES)
        }

        def counter(name: str) -> Counter:
            labels, text = about[name]
            return Counter(name, text, labels, registry=self.registry)

        def gauge(name: str) -> Gauge:
            labels, text = about[name]
            return Gauge(name, text, labels, registry=self.registry)

        def histogram(name: str, buckets: Sequence[float]) -> Histogram:
            labels, text = about[name]
            return Histogram(name, text, labels, registry=self.registry, buckets=buckets)

        self.reconcile_total = counter("controller_runtime_reconcile_total")
        self.reconcile_errors = counter("controller_runtime_reconcile_errors_total")
        self.terminal_reconcile_errors = counter("controller_runtime_terminal_reconcile_errors_total")
        self.reconcile_panics = counter("controller_runtime_reconcile_panics_total")
        self.reconcile_timeouts = counter("controller_runtime_reconcile_timeouts_total")
        self.reconcile_time = histogram("controller_runtime_reconcile_time_seconds", RECONCILE_BUCKETS)
        self.max_concurrent_reconciles = gauge("controller_runtime_max_concurrent_reconciles")
        self.active_workers = gauge("controller_runtime_active_workers")
        self.failing_objects = gauge("operator_manager_failing_objects")
        self.unstable_children = gauge("operator_manager_unstable_children")
        self.rollouts_waiting = gauge("operator_manager_rollouts_waiting")
        self.reconciles_skipped = counter("operator_manager_reconciles_skipped_total")
        self.event_to_reconcile = histogram("operator_manager_event_to_reconcile_seconds", LATENCY_BUCKETS)
        self.queue_depth = gauge("workqueue_depth")
        self.queue_adds = counter("workqueue_adds_total")
        self.queue_retries = counter("workqueue_retries_total")
        self.queue_latency = histogram("workqueue_queue_duration_seconds", QUEUE_BUCKETS)
        self.work_duration = histogram("workqueue_work_duration_seconds", QUEUE_BUCKETS)
        self.unfinished_work = gauge("workqueue_unfinished_work_seconds")
        self.longest_running = gauge("workqueue_longest_running_processor_seconds")
        self.oldest_key = gauge("operator_manager_queue_oldest_key_seconds")
        self.next_retry = gauge("operator_manager_queue_next_retry_seconds")
        self.webhook_requests = counter("controller_runtime_webhook_requests_total")
        self.webhook_latency = histogram("controller_runtime_webhook_latency_seconds", LATENCY_BUCKETS)
        self.webhook_in_flight = gauge("controller_runtime_webhook_requests_in_flight")
        self.webhook_panics = counter("controller_runtime_webhook_panics_total")
        self.conversion_panics = counter("controller_runtime_conversion_webhook_panics_total")
        self.rest_requests = counter("rest_client_requests_total")
        self.rest_latency = histogram("rest_client_request_duration_seconds", REQUEST_BUCKETS)
        self.leader_status = gauge("leader_election_master_status")
        self.shards_wanted = gauge("operator_manager_shards_wanted")
        self.lease_handovers = counter("operator_manager_lease_handovers_total")
        self.lease_unowned = histogram("operator_manager_lease_unowned_seconds", UNOWNED_BUCKETS)
        self.moved_keys = counter("operator_manager_moved_keys_total")
        self.cache_objects = gauge("operator_manager_cache_objects")
        self.cache_bytes = gauge("operator_manager_cache_bytes")
        self.definition_differences = gauge("operator_manager_definition_differences")
        self.watch_restarts = counter("operator_manager_watch_restarts_total")
        self.cache_failures = counter("operator_manager_cache_failures_total")
        self.events_total = counter("operator_manager_events_total")
        self.build_info = gauge("operator_manager_build_info")
        self.loop_tasks = gauge("operator_manager_event_loop_tasks")
        self.loop_lag = histogram("operator_manager_event_loop_lag_seconds", LATENCY_BUCKETS)
