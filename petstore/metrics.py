"""Prometheus metrics of a server, with the metric names of go-grpc-prometheus."""

from __future__ import annotations

from typing import Final

import grpc
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

_LABELS = ("grpc_type", "grpc_service", "grpc_method")
_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Go's spelling, on which alerts depend: Canceled has one l, and OK is in capitals.
_CODE_NAMES: Final = {
    code: {"OK": "OK", "CANCELLED": "Canceled"}.get(code.name, code.name.title().replace("_", ""))
    for code in grpc.StatusCode
}


def code_name(code: grpc.StatusCode) -> str:
    """Return the name of a status code in the label `grpc_code`."""
    return _CODE_NAMES[code]


class ServerMetrics:
    """The metrics of one server and of its process, in a registry of their own."""

    def __init__(self) -> None:
        # prometheus_client can switch this off only for the whole process; `_created` series would double the
        # page.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it without hints
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        registry = self.registry
        self._started = Counter("grpc_server_started", "Calls begun.", _LABELS, registry=registry)
        self._handled = Counter(
            "grpc_server_handled", "Calls ended, by status.", (*_LABELS, "grpc_code"), registry=registry
        )
        self._received = Counter(
            "grpc_server_msg_received", "Messages received from clients.", _LABELS, registry=registry
        )
        self._sent = Counter("grpc_server_msg_sent", "Messages sent to clients.", _LABELS, registry=registry)
        self._seconds = Histogram(
            "grpc_server_handling_seconds",
            "Time from a call's begin to its end.",
            _LABELS,
            buckets=_BUCKETS,
            registry=registry,
        )

    def of(self, grpc_type: str, service: str, method: str) -> CallMetrics:
        """Return the metrics of one method; before its first call, their values are zero."""
        return CallMetrics(self, (grpc_type, service, method))


class CallMetrics:
    """The metrics of one method with its labels; `handled` looks up the labels of each code only once."""

    def __init__(self, metrics: ServerMetrics, labels: tuple[str, str, str]) -> None:
        self.started = metrics._started.labels(*labels)  # noqa: SLF001 -- ServerMetrics and CallMetrics belong together
        self.received = metrics._received.labels(*labels)  # noqa: SLF001
        self.sent = metrics._sent.labels(*labels)  # noqa: SLF001
        self.seconds = metrics._seconds.labels(*labels)  # noqa: SLF001
        self._handled = metrics._handled  # noqa: SLF001
        self._labels = labels
        self._by_code: dict[grpc.StatusCode, Counter] = {}

    def handled(self, code: grpc.StatusCode) -> None:
        """Count an ended call by its status code."""
        counter = self._by_code.get(code)
        if counter is None:
            counter = self._by_code[code] = self._handled.labels(*self._labels, code_name(code))
        counter.inc()
