"""All benchmarks, by suite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.micro.suites import (
    applying,
    decoding,
    events,
    live,
    patching,
    queue,
    reconciling,
    recording,
    requests,
    store,
)

if TYPE_CHECKING:
    from benchmarks.micro.benchmark import Benchmark

SUITES: dict[str, tuple[Benchmark, ...]] = {
    "queue": queue.BENCHMARKS,
    "store": store.BENCHMARKS,
    "decode": decoding.BENCHMARKS,
    "apply": applying.BENCHMARKS,
    "patch": patching.BENCHMARKS,
    "request": requests.BENCHMARKS,
    "record": recording.BENCHMARKS,
    "event": events.BENCHMARKS,
    "reconcile": reconciling.BENCHMARKS,
    "live": live.BENCHMARKS,
}
"""Each suite is measured side by side, and on its own."""
