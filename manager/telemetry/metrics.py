"""Every metric family of the process, under the names dashboards and alerts already know.

One `Metrics` belongs to one manager and is handed to whoever records. Families with labels are
bound once (`metrics.reconcile_total.labels("memcached", "success")`) and the bound child kept,
so that recording on a hot path is one addition.
"""

from __future__ import annotations

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
"""Upper bounds in seconds for how long one reconcile takes."""

QUEUE_BUCKETS = tuple(float(f"1e{exponent}") for exponent in range(-8, 4))
"""Upper bounds in seconds for waiting in and working on a queue: 10 ns to 1,000 s, by tens."""

REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Upper bounds in seconds for one request to the API server."""

LATENCY_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Upper bounds in seconds for delays inside the process."""

UNOWNED_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0)
"""Upper bounds in seconds for how long a lease has no holder."""


class Observe(Protocol):
    """Function that records a value, with an exemplar."""

    def __call__(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        """Record it."""


_HELP = """
controller_runtime_reconcile_total: Reconciles per controller and result: success, error or requeue(_after).
controller_runtime_reconcile_errors_total: Reconciles that failed.
controller_runtime_terminal_reconcile_errors_total: Reconciles that failed in a way no retry can mend.
controller_runtime_reconcile_panics_total: Reconciles that failed by a fault in the program.
controller_runtime_reconcile_timeouts_total: Reconciles stopped because they exceeded the reconcile timeout.
controller_runtime_reconcile_time_seconds: Time taken by one reconcile.
controller_runtime_max_concurrent_reconciles: How many reconciles the controller may run at once.
controller_runtime_active_workers: How many reconciles are running.
operator_manager_failing_objects: Objects whose latest reconcile failed.
operator_manager_unstable_children: Children that are changed too often, and so less often now.
operator_manager_rollouts_waiting: Objects whose pods wait for max_concurrent_rollouts others.
operator_manager_reconciles_skipped_total: Reconciles not run, as only the one before had asked for them.
operator_manager_event_to_reconcile_seconds: Time from a watch event's arrival to its reconcile's start.
workqueue_depth: Keys waiting in the queue, per priority.
workqueue_adds_total: Keys added to the queue.
workqueue_retries_total: Keys added again after a failure.
workqueue_queue_duration_seconds: How long a key waits in the queue before it is worked on.
workqueue_work_duration_seconds: How long working on a key takes.
workqueue_unfinished_work_seconds: Sum of the ages of the work in progress.
workqueue_longest_running_processor_seconds: Age of the oldest work in progress.
operator_manager_queue_oldest_key_seconds: Age of the key that has been ready for the longest time.
operator_manager_queue_next_retry_seconds: Time until the next delayed key is ready; 0 for none.
controller_runtime_webhook_requests_total: Reviews, by path of the webhook and HTTP status of the answer.
controller_runtime_webhook_latency_seconds: Time from the head of a review to its answer.
controller_runtime_webhook_requests_in_flight: Reviews that are being answered.
controller_runtime_webhook_panics_total: Admission functions that failed unexpectedly.
controller_runtime_conversion_webhook_panics_total: Conversion functions that failed unexpectedly.
rest_client_requests_total: Requests to the API server by status code, method and host; <error> for no answer.
rest_client_request_duration_seconds: Time from sending a request to its answer, retries apart.
leader_election_master_status: 1 while this process holds the lease of that name, else 0.
operator_manager_ranges_wanted: Shards that this process should own; 0 without --shards.
operator_manager_lease_handovers_total: Leases that this process has taken, or given back.
operator_manager_lease_unowned_seconds: Time without a holder of a lease that this process took.
operator_manager_moved_keys_total: Objects of shards that this process has taken, or given back.
operator_manager_cache_objects: Objects held in the cache.
operator_manager_cache_bytes: Bytes of JSON held in the cache.
operator_manager_definition_differences: Differences of an installed definition from the program's.
operator_manager_watch_restarts_total: Watches that ended and were opened again, by reason.
operator_manager_cache_failures_total: Objects of the cache that something failed on.
operator_manager_events_total: Kubernetes Events by what became of them.
operator_manager_build_info: 1, with the program's name and version.
operator_manager_event_loop_tasks: Tasks of the event loop that are not done.
operator_manager_event_loop_lag_seconds: Delay of a timer of the event loop.
"""
"""The texts of the families."""


def counting(counter: Counter) -> Callable[[], None]:
    """Return a function that increments a series, like `inc` in a quarter of its time.

    It is for the event loop's thread only: unlike `inc`, it takes no lock against other threads.
    """
    value = counter._value  # noqa: SLF001 - the library has no quick way

    def count() -> None:
        value._value += 1.0  # noqa: SLF001 - as above

    return count


def observing(histogram: Histogram) -> Observe:
    """Return a function that records a value in a series, like `observe` in a fifth of its time.

    It is for the event loop's thread only (see `counting`).
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
    """All metric families, registered in one registry.

    Cardinality is bounded: no label ever holds an object's name or namespace.
    """

    def __init__(self) -> None:  # noqa: PLR0915 - one statement for each metric
        # A process-wide switch of prometheus_client; a `_created` series beside each counter
        # and histogram would double their cost in the time series database.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it without hints
        self.registry = CollectorRegistry()
        self.process_registry = CollectorRegistry()
        """What describes the process. Apart, because collecting it reads files: not in the event loop."""
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.process_registry)
        help_of = dict(line.split(": ", 1) for line in _HELP.split("\n") if line)

        def counter(name: str, *labels: str) -> Counter:
            return Counter(name, help_of[name], labels, registry=self.registry)

        def gauge(name: str, *labels: str) -> Gauge:
            return Gauge(name, help_of[name], labels, registry=self.registry)

        def histogram(name: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(name, help_of[name], labels, registry=self.registry, buckets=buckets)

        self.reconcile_total = counter("controller_runtime_reconcile_total", "controller", "result")
        self.reconcile_errors = counter("controller_runtime_reconcile_errors_total", "controller")
        self.terminal_reconcile_errors = counter(
            "controller_runtime_terminal_reconcile_errors_total", "controller"
        )
        self.reconcile_panics = counter("controller_runtime_reconcile_panics_total", "controller")
        self.reconcile_timeouts = counter("controller_runtime_reconcile_timeouts_total", "controller")
        self.reconcile_time = histogram(
            "controller_runtime_reconcile_time_seconds", RECONCILE_BUCKETS, "controller"
        )
        self.max_concurrent_reconciles = gauge("controller_runtime_max_concurrent_reconciles", "controller")
        self.active_workers = gauge("controller_runtime_active_workers", "controller")
        self.failing_objects = gauge("operator_manager_failing_objects", "controller")
        self.unstable_children = gauge("operator_manager_unstable_children", "controller", "reason")
        self.rollouts_waiting = gauge("operator_manager_rollouts_waiting", "controller")
        self.reconciles_skipped = counter("operator_manager_reconciles_skipped_total", "controller")
        self.event_to_reconcile = histogram(
            "operator_manager_event_to_reconcile_seconds", LATENCY_BUCKETS, "controller"
        )
        self.queue_depth = gauge("workqueue_depth", "name", "controller", "priority")
        self.queue_adds = counter("workqueue_adds_total", "name", "controller")
        self.queue_retries = counter("workqueue_retries_total", "name", "controller")
        self.queue_latency = histogram(
            "workqueue_queue_duration_seconds", QUEUE_BUCKETS, "name", "controller"
        )
        self.work_duration = histogram("workqueue_work_duration_seconds", QUEUE_BUCKETS, "name", "controller")
        self.unfinished_work = gauge("workqueue_unfinished_work_seconds", "name", "controller")
        self.longest_running = gauge("workqueue_longest_running_processor_seconds", "name", "controller")
        self.oldest_key = gauge("operator_manager_queue_oldest_key_seconds", "name", "controller")
        self.next_retry = gauge("operator_manager_queue_next_retry_seconds", "name", "controller")
        self.webhook_requests = counter("controller_runtime_webhook_requests_total", "webhook", "code")
        self.webhook_latency = histogram(
            "controller_runtime_webhook_latency_seconds", LATENCY_BUCKETS, "webhook"
        )
        self.webhook_in_flight = gauge("controller_runtime_webhook_requests_in_flight", "webhook")
        self.webhook_panics = counter("controller_runtime_webhook_panics_total")
        self.conversion_panics = counter("controller_runtime_conversion_webhook_panics_total")
        self.rest_requests = counter("rest_client_requests_total", "code", "method", "host")
        self.rest_latency = histogram("rest_client_request_duration_seconds", REQUEST_BUCKETS, "verb", "host")
        self.leader_status = gauge("leader_election_master_status", "name")
        self.shards_wanted = gauge("operator_manager_ranges_wanted")
        self.lease_handovers = counter("operator_manager_lease_handovers_total", "direction")
        self.lease_unowned = histogram("operator_manager_lease_unowned_seconds", UNOWNED_BUCKETS)
        self.moved_keys = counter("operator_manager_moved_keys_total", "controller", "direction")
        self.cache_objects = gauge("operator_manager_cache_objects", "kind", "projection")
        self.cache_bytes = gauge("operator_manager_cache_bytes", "kind", "projection")
        self.definition_differences = gauge("operator_manager_definition_differences", "definition")
        self.watch_restarts = counter("operator_manager_watch_restarts_total", "kind", "reason")
        self.cache_failures = counter("operator_manager_cache_failures_total", "kind", "part")
        self.events_total = counter("operator_manager_events_total", "result")
        self.build_info = gauge("operator_manager_build_info", "program", "version")
        self.loop_tasks = gauge("operator_manager_event_loop_tasks")
        self.loop_lag = histogram("operator_manager_event_loop_lag_seconds", LATENCY_BUCKETS)
