"""All benchmarks, by suite; each suite is measured side by side, and on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.micro.suites import decoding, live, queue, store

if TYPE_CHECKING:
    from benchmarks.micro.sampling import Benchmark

SUITES: dict[str, tuple[Benchmark, ...]] = {
    "queue": queue.BENCHMARKS,
    "store": store.BENCHMARKS,
    "decode": decoding.BENCHMARKS,
    "live": live.BENCHMARKS,
}
