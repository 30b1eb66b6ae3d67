"""Counts and durations of requests, bound once per combination of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram

    from manager.metrics import Metrics

NO_ANSWER = 0
"""Stands for a status code where no complete answer came."""


class RequestMetrics:
    """Records requests to one host.

    The label values are few (methods times status codes), so that each combination's counter is
    looked up once and kept.
    """

    def __init__(self, metrics: Metrics, host: str) -> None:
        self._requests = metrics.rest_requests
        self._latency = metrics.rest_latency
        self._host = host
        self._bound: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def record(self, method: str, code: int, seconds: float) -> None:
        """Count a request of `method` that took `seconds` to be answered with `code`, or `NO_ANSWER`."""
        bound = self._bound.get((method, code))
        if bound is None:
            label = "<error>" if code == NO_ANSWER else str(code)
            bound = (
                self._requests.labels(code=label, method=method, host=self._host),
                self._latency.labels(verb=method, host=self._host),
            )
            self._bound[method, code] = bound
        counter, histogram = bound
        counter.inc()
        histogram.observe(seconds)
